"""What the operating system offers: files, locks, processes, the terminal."""

"""Operating system services: files, locks, processes."""

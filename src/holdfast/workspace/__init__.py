"""The workspace of a command: its folders, settings and recipes, and which commands it may run."""

"""The commands: each function takes parsed arguments, calls the keeper, and returns an answer."""

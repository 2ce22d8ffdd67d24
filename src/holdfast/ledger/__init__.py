"""The append-only truth of a workspace."""

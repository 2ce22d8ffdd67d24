"""The pure core: no clock, ids, files, environment or logging."""

"""Where things are and what is allowed there: location, settings, trust, recipes."""

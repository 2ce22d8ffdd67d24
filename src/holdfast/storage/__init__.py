"""Where events, states and records are kept. Nothing here knows what a workflow is."""

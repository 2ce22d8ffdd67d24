"""Storage for events, states and records. Nothing here knows what a workflow is."""

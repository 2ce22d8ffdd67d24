"""The answers of the surfaces: as one JSON object, and what a failure says."""

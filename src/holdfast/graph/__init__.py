"""The memory graph: entities with observations, and relations between them, in one SQLite file.

``store`` has the semantics of the reference Memory MCP server, on ``database``, which opens the
file, and ``search``, which is pure. ``projection`` says what the ledger's events mean for a graph,
and ``applying`` carries that out on any graph: on the embedded one (``layer``), or on a server that
the user already has (``servers``, ``remote``, ``delivery``).
"""

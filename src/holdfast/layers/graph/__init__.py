"""The memory graph (L3): entities with observations, and relations between them.

``projection`` translates states and events of the ledger into updates of entities, and
``pending_events`` reads those from the ledger. The embedded graph is that answer and nothing more.
A Memory server of the user's own (``mcp_client``) is sent what changed (``mcp_delivery``), with as
few calls as possible (``apply``).

``store`` is the graph of ``holdfast mcp memory`` in an SQLite file (``database``, ``sql``,
``search``), and ``memory_graph`` imports it from the file of another Memory server.
"""

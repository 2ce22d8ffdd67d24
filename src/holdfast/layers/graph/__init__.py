"""The memory graph: entities with observations, and relations between them.

``projection`` says what the ledger's states and events mean for a graph, and ``pending_events``
reads them. The embedded graph (``embedded``) is that projection and nothing more. A Memory server
of the user's own (``servers``, ``mcp_client``) is sent what changed (``mcp_delivery``), with the
calls that ``apply`` plans.

``store`` is a Memory server's graph of our own, in an SQLite file (``database``, ``search``), for
``holdfast mcp memory``.
"""

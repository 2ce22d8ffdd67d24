"""The memory graph: entities with observations, and relations between them.

``projection`` says what the ledger's states and events mean for a graph, and ``history`` reads
them. The embedded graph (``embedded``) is that projection and nothing more. A Memory server of the
user's own (``servers``, ``remote``) is sent what changed (``delivery``), with the calls that
``applying`` plans.

``store`` is a Memory server's graph of our own, in an SQLite file (``database``, ``search``), for
``holdfast mcp memory``.
"""

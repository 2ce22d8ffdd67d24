"""The hub: where the replicas of a ledger meet, so that work travels to other machines.

A *replica* is one ledger. A *hub* keeps the shared events of all replicas and gives them to each
other: over a git remote (``git.py``), or PostgreSQL (``postgres.py``). ``contract.py`` is what every
hub does. ``exchange.py`` pulls, merges and pushes. How shared events of several replicas make one
state, and what becomes a conflict, is in ``core/sharing.py``.

The local ledger comes first: no change and no look ever waits for a hub.
"""

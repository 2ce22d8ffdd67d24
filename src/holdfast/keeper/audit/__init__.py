"""``verify`` compares the ledger with itself and every view with the ledger; ``repair`` mends both.

``chain`` reads the events in order, ``views`` compares tables and files with them, and ``repair``
rebuilds what is wrong.
"""

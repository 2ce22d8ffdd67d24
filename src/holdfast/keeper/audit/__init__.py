"""Verify the ledger and its views, and repair them.

``chain`` checks the events in order, ``views`` compares tables and files with them, ``verify`` runs
both, and ``repair`` rebuilds what is wrong.
"""

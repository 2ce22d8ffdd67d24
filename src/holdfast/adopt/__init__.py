"""Bring what people, other tools and crashes left on the disk into the ledger."""

"""Views of the ledger beside the records: ``MEMORY.md``, the memory graph, people's Markdown."""

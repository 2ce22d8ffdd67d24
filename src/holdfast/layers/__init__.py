"""Views of the ledger: records, and what lists them."""

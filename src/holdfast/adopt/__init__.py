"""What people, other tools and crashes left on the disk, and how it comes into the ledger."""

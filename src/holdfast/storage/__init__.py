"""Storage for events, states and records. Nothing here knows what a workflow is.

These are the conditions by which rows are selected for a caller. They are here, and not in
``ledger``, for a status line, which cannot afford to import that.
"""

ACTIVE = "status IN ('in_progress', 'blocked')"
MAX_CANDIDATES = 200
"""The number of workflows that a selection considers."""
# The plus keeps SQLite from using the index by worktree: the index by time needs no sorting.
HERE = f"{ACTIVE} AND +worktree = ? AND (floating = 1 OR branch IS NULL OR branch = ?)"
NEWEST = f"ORDER BY updated_at DESC, seq DESC LIMIT {MAX_CANDIDATES}"
POOL = "pool"
"""The fact that is set as soon as a lease was taken here. Without it, nobody looks for leases."""
LOST = "lost "
"""The beginning of the name of the fact that has the workflow which a session lost to another."""
GLANCE = "glance "
"""The beginning of the name of the fact that has what a status line shows of a workflow."""

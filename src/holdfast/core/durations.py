"""How long a workflow has been in its phases and tasks, from the times that were recorded. Pure.

A time that was not recorded, or that an edit made unreadable, gives ``None``; so does one that lies
in the future because a clock was set back. The time that a phase was blocked counts.
"""

from __future__ import annotations

from holdfast.core.time import epoch_ms
from holdfast.core.workflow import is_active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Phase, Task, Workflow

MINUTE_MS = 60_000
_BEGUN = ("in_progress", "blocked", "confirming", "verifying", "timeout")
"""The statuses in which a phase or task has begun and is not over."""


def duration_ms(state: Workflow, item: Phase | Task, now_ms: int) -> int | None:
    """Return how long a phase or task took, or has taken until now; ``None`` if it is unknown."""
    begin_ms, end_ms = epoch_ms(item.get("started_at") or ""), _end_ms(state, now_ms)
    if item["status"] == "completed":
        end_ms = epoch_ms(item.get("completed_at") or "")
    elif item["status"] not in _BEGUN:
        return None
    if begin_ms is None or end_ms is None or end_ms < begin_ms:
        return None
    return end_ms - begin_ms


def _end_ms(state: Workflow, now_ms: int) -> int | None:
    """Return the time until which open phases and tasks have taken: now, or the workflow's end."""
    if is_active(state):
        return now_ms
    return epoch_ms(state.get("completed_at") or state["updated_at"])


def span(ms: int | None) -> str:
    """Return ``<1 min``, ``12 min``, ``2 h 5 min`` or ``3 d 4 h``; empty if it is unknown."""
    if ms is None:
        return ""
    minutes = ms // MINUTE_MS
    if minutes < 1:
        return "<1 min"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min"

"""Deliver to a Memory server in the background, after a change.

A change must not wait for a server. So when the lock is free again, it starts ``holdfast sync
--background`` and does not wait for it. One such process delivers at a time. Another one that finds
it at work ends at once: the first looks again, after it has let go, for what was recorded
meanwhile. It ends after ``LIMIT_S`` seconds, whatever the server does.

What the user has to know is left for the next change to say (``layers/deliveries.py``).
"""

from __future__ import annotations

import os

from holdfast.errors import Fault, HoldfastError
from holdfast.layers.deliveries import DeliveryNotes, repeat
from holdfast.system.detached import start_detached
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.layers import LayerSource

LIMIT_S = 30
_LOCK_FILE = "graph-mcp.background"
_NOTES = "graph-mcp"


def start(source: LayerSource) -> None:
    """Start a delivery if the graph is kept by a server, and say what an earlier one met."""
    root = source.workspace.root
    if not os.environ.get("HOLDFAST_GRAPH") and not settings.mentions(root, b"mcp:"):
        return
    try:
        if not settings.load(root).graph().startswith("mcp:"):
            return
    except HoldfastError:
        return  # Everything that needs the settings says what is wrong with them.
    notes_of(source).say()
    start_detached(["sync", "--background"], root)


def notes_of(source: LayerSource) -> DeliveryNotes:
    return DeliveryNotes(source, _NOTES)


def deliver(source: LayerSource) -> None:
    """Deliver until the server has everything, fails, or the time is over."""
    name = settings.load(source.workspace.root).graph()
    if name.startswith("mcp:"):
        repeat(lambda: _deliver_once(source, name.removeprefix("mcp:")), LIMIT_S)


def _deliver_once(source: LayerSource, name: str) -> bool:
    """Deliver, unless another process does; return True if nothing is left to do."""
    from holdfast.layers.graph import mcp_delivery

    try:
        lock = source.disk.lock(os.path.join(source.workspace.home, _LOCK_FILE), 0.0)
    except Fault:
        return True
    try:
        delivery = mcp_delivery.deliver(source, name)
        trouble = mcp_delivery.WARNING if delivery["why"] else ""
    except HoldfastError as error:
        trouble = f"the Memory server {name} gets nothing: {error.message}; {error.hint}"
    finally:
        source.disk.close(lock)
    notes = notes_of(source)
    was_down = notes.last_note().startswith(mcp_delivery.WARNING)
    notes.settle(trouble, mcp_delivery.RECOVERED if was_down else "")
    return bool(trouble) or source.ledger.head_seq == delivery["seq"]

"""Read from the ledger what a graph should contain: everything, or what changed after an event.

The ledger is read without a lock, and nothing is written. The embedded graph is nothing but this
answer, computed on demand; a Memory server is sent what changed since the last delivery.
"""

from __future__ import annotations

from holdfast.formats import is_workflow, stream_of
from holdfast.layers.graph import projection
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event
    from holdfast.layers.graph.types import Entity, EntityUpdate
    from holdfast.layers.interfaces import LayerSource
    from holdfast.storage.ledger import Stream

_LOGS = tuple(stream_of(kind) for kind in ("interview", "delegation", "learning", "forge"))
"""Streams of which a graph shows every event, also those that left the state."""
_INITIATIVES = stream_of("initiatives")
_WHOLE_RECORD = ("record_adopted", "record_edited")
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
_IN_THE_SLOT = f"format = 'verb' AND worktree = '.' ORDER BY {ACTIVE} DESC, seq DESC LIMIT 1"
_CHANGED = "seq > ? OR stream IN (?, ?) ORDER BY created_at, stream"
_NEWEST = f"{ACTIVE} AND phase_total > 0 ORDER BY updated_at DESC, seq DESC LIMIT 1"


class PendingChanges:
    """What brings a graph up to date."""

    __slots__ = ("holder", "removed", "updates")

    def __init__(self, updates: list[EntityUpdate], removed: list[str], holder: str) -> None:
        self.updates = updates
        self.removed = removed
        """The names of entities to remove."""
        self.holder = holder
        """The id of the workflow in the slot ``workflow-state``; empty if there is none."""


def since(source: LayerSource, seq: int, previous: str = "") -> PendingChanges:
    """Return what changed after an event; 0 means everything.

    ``previous`` is the id of the workflow that held the slot until then.
    """
    ledger = source.ledger
    in_slot = [row["stream"] for row in ledger.rows(_IN_THE_SLOT)]
    streams = list(ledger.states(_CHANGED, seq, previous, "".join(in_slot)))
    workflows = [
        projection.WorkflowSnapshot(stream.state, stream.row["seq"])
        for stream in streams
        if is_workflow(stream.row["stream"])
    ]
    holder = projection.slot_holder(workflows)
    before = next((workflow for workflow in workflows if workflow.state["id"] == previous), None)
    changed = [workflow for workflow in workflows if workflow.seq > seq]
    updates, removed = projection.workflow_updates(changed, before, holder)
    if previous and holder is None:
        removed.append(projection.SLOT)
    updates += _log_updates(source, streams, seq)
    for stream in streams:
        if stream.row["stream"] == _INITIATIVES:
            checkpoints, obsolete = projection.initiative_updates(stream.state)
            updates += checkpoints
            removed += obsolete
    holder_id = "" if holder is None else holder.state["id"]
    return PendingChanges(projection.merge_updates(updates), removed, holder_id)


def newest_workflow(source: LayerSource) -> Entity | None:
    """Return the entity of the active workflow that changed last, without the other entities."""
    for stream in source.ledger.states(_NEWEST):
        in_slot = projection.fits_slot(stream.state)
        update = projection.workflow_update(stream.state, in_slot=in_slot)
        return {
            "name": update["name"],
            "entityType": update["entityType"],
            "observations": update["observations"],
        }
    return None


def _log_updates(source: LayerSource, streams: list[Stream], after: int) -> list[EntityUpdate]:
    """Return the updates for events of the logs in their order, up to the states that were read."""
    events: list[Event] = []
    for stream in streams:
        if stream.row["stream"] in _LOGS:
            name, last = stream.row["stream"], stream.row["seq"]
            events += source.ledger.events(name, after=after, upto=last)
    events.sort(key=lambda event: event["seq"])
    updates: list[EntityUpdate] = []
    for event in events:
        try:
            if event["type"] in _WHOLE_RECORD:
                state = source.state_at(event["stream"], event["seq"])
                updates += projection.log_updates(state)
            else:
                updates += projection.event_updates(event)
        except _NONSENSE:
            continue  # It came with an import, and the state leaves it out as well.
    return updates

"""What a graph has to say about the ledger: everything, or what changed after an event.

The ledger is read in one query, without a lock, and nothing is written. The embedded graph is the
whole answer; a Memory server is sent what changed since the last delivery.
"""

from __future__ import annotations

from holdfast.formats.aggregates import is_workflow, stream_of
from holdfast.layers.graph import projection
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event
    from holdfast.keeper.store import Store
    from holdfast.layers.graph.shapes import Operation
    from holdfast.storage.ledger import Stream

_LOGS = tuple(stream_of(kind) for kind in ("interview", "delegation", "learning", "forge"))
"""Streams of which a graph shows each event, also those that have left the state."""
_INITIATIVES = stream_of("initiatives")
_WHOLE = ("record_adopted", "record_edited")
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError)
_IN_THE_SLOT = f"format = 'verb' AND worktree = '.' ORDER BY {ACTIVE} DESC, seq DESC LIMIT 1"
_CHANGED = "seq > ? OR stream IN (?, ?) ORDER BY created_at, stream"


class Update:
    """What brings a graph up to date."""

    __slots__ = ("gone", "holder", "operations")

    def __init__(self, operations: list[Operation], gone: list[str], holder: str) -> None:
        self.operations = operations
        self.gone = gone
        """The names of entities to remove."""
        self.holder = holder
        """The id of the workflow that is the entity ``workflow-state``; empty if there is none."""


def since(store: Store, seq: int, previous: str = "") -> Update:
    """Return what changed after an event, 0 for everything.

    ``previous`` is the workflow that was the entity ``workflow-state`` until then.
    """
    in_slot = [row["stream"] for row in store.ledger.rows(_IN_THE_SLOT)]
    streams = list(store.ledger.states(_CHANGED, seq, previous, "".join(in_slot)))
    workflows = [
        projection.Seen(one.state, one.row["seq"])
        for one in streams
        if is_workflow(one.row["stream"])
    ]
    holder = projection.holder_of(workflows)
    before = next((one for one in workflows if one.state["id"] == previous), None)
    changed = [one for one in workflows if one.seq > seq]
    operations, gone = projection.of_workflows(changed, before, holder)
    if previous and holder is None:
        gone.append(projection.SLOT)
    operations += _of_logs(store, streams, seq)
    for one in streams:
        if one.row["stream"] == _INITIATIVES:
            checkpoints, left = projection.of_initiatives(one.state)
            operations += checkpoints
            gone += left
    holder_id = "" if holder is None else holder.state["id"]
    return Update(projection.merged(operations), gone, holder_id)


def _of_logs(store: Store, streams: list[Stream], after: int) -> list[Operation]:
    """Return what the events of the logs mean, in their order; at most up to the state's event."""
    events: list[Event] = []
    for one in streams:
        if one.row["stream"] in _LOGS:
            events += store.ledger.events(one.row["stream"], after=after, upto=one.row["seq"])
    events.sort(key=lambda event: event["seq"])
    return [operation for event in events for operation in _of_event(store, event)]


def _of_event(store: Store, event: Event) -> list[Operation]:
    """Return what an event means; one that replaced the whole record means all that it holds."""
    try:
        if event["type"] in _WHOLE:
            return projection.of_small(store.state_at(event["stream"], event["seq"]))
        return projection.of_event(event)
    except _NONSENSE:
        return []  # It came with an import, and the state leaves it out as well.

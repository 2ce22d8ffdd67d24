"""What of the ledger a graph has not seen yet, as operations. Reads the ledger, writes nothing.

A graph remembers the last event it shows by ``seq`` and ``hash``. If the ledger has that event,
only what follows it counts; if not, the ledger was replaced or cut, and all of it counts.
"""

from __future__ import annotations

from holdfast import small
from holdfast.core import workflow
from holdfast.engine import NeedsLock
from holdfast.errors import HoldfastError
from holdfast.graph import projection
from holdfast.layers.catalog import has_no_workflow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.shapes import Event, Workflow
    from holdfast.engine import Engine
    from holdfast.graph.projection import Seen
    from holdfast.graph.shapes import Operation

    Marks = dict[str, str]

_DIGITS = 16
_WHOLE = ("record_adopted", "record_edited")
_INITIATIVES = small.stream_of("initiatives")
_ODD = (LookupError, TypeError, ValueError, AttributeError)


class Outstanding:
    """What a graph lacks. ``marks`` is what it has to remember once it has it."""

    __slots__ = ("events", "gone", "is_whole", "marks", "operations")

    def __init__(
        self, engine: Engine, events: Iterable[Event], holder: str, *, whole: bool
    ) -> None:
        self.is_whole = whole
        """Whether it is everything, so that what the graph said before no longer counts."""
        read = _Read(engine, events, whole=whole)
        self.events = read.events
        before = None if whole else _one(engine, holder, read.seen)
        now = projection.holder_of([*read.seen, *([before] if before else [])])
        made, self.gone = projection.of_workflows(read.seen, before, now)
        self.gone += read.gone
        if holder and now is None:
            self.gone.append(projection.SLOT)
        self.operations: list[Operation] = projection.merged([*made, *read.told])
        self.marks: Marks = {
            "shape": projection.VERSION,
            "ledger": engine.ledger.identity(),
            "holder": "" if now is None else now.state["id"],
        }
        if read.last is not None:
            self.marks["seq"] = str(read.last["seq"])
            self.marks["hash"] = read.last["hash"]


class _Read:
    """Events, gone through once: a ledger may be long."""

    def __init__(self, engine: Engine, events: Iterable[Event], *, whole: bool) -> None:
        self.events = 0
        self.last: Event | None = None
        self.told: list[Operation] = []
        self.gone: list[str] = []
        initiatives = 0
        states: dict[str, Workflow | None] = {}
        seqs: dict[str, int] = {}
        for event in events:
            self.events += 1
            self.last = event
            stream = event["stream"]
            if stream == _INITIATIVES:
                # A task that is done is no news to a graph.
                is_task = event["type"] == "milestone_task_recorded"
                initiatives = initiatives if is_task else event["seq"]
            elif has_no_workflow(stream):
                self.told += _told(engine, event)
            else:
                known = states.get(stream)
                states[stream] = workflow.carried(known, event) if whole else None
                seqs[stream] = event["seq"]
        if initiatives:
            told, self.gone = _initiatives(engine, initiatives)
            self.told += told
        self.seen: list[Seen] = []
        for stream, state in states.items():
            if whole:
                self.seen += [] if state is None else _sound(state, seqs[stream])
            else:
                self.seen += _shown(engine, stream)


def is_current(engine: Engine, marks: Marks) -> bool:
    """Whether a graph with these marks shows the ledger's last event."""
    same = marks.get("hash", "") == engine.ledger.head_hash and _is_of(engine, marks)
    return same or not engine.ledger.head_seq


def outstanding(engine: Engine, marks: Marks) -> Outstanding:
    """What a graph with these marks lacks."""
    seq = seq_of(marks) if _is_of(engine, marks) else 0
    holder = marks.get("holder", "")
    if seq:
        events = list(engine.ledger.scan(after=seq - 1))
        is_known = bool(events) and events[0]["seq"] == seq
        if is_known and events[0]["hash"] == marks.get("hash"):
            found = Outstanding(engine, events[1:], holder, whole=False)
            # Whoever held the place may be somewhere else now; who had it before, all of it tells.
            if found.marks["holder"] or not holder:
                return found
    return Outstanding(engine, engine.ledger.scan(), holder, whole=True)


def seq_of(marks: Marks) -> int:
    """The last event that a graph shows; none where its file tells nonsense."""
    told = marks.get("seq", "")
    return int(told) if told.isascii() and told.isdecimal() and len(told) < _DIGITS else 0


def _is_of(engine: Engine, marks: Marks) -> bool:
    told = (marks.get("shape"), marks.get("ledger"))
    return told == (projection.VERSION, engine.ledger.identity()) and seq_of(marks) > 0


def _told(engine: Engine, event: Event) -> list[Operation]:
    """What an event of a small aggregate means; of one that changed it whole, its state tells."""
    if not has_no_workflow(event["stream"]):
        return []
    kind = small.kind_of(event["stream"])
    try:
        if event["type"] not in _WHOLE or kind not in small.KINDS:
            return projection.of_event(event)
        before = engine.ledger.scan(event["stream"])
        state, _ = small.replayed(kind, (one for one in before if one["seq"] <= event["seq"]))
        return projection.of_small(state or {})
    except _ODD:
        return []


def _initiatives(engine: Engine, upto: int) -> tuple[list[Operation], list[str]]:
    """The initiatives as of the last event that a graph hears of."""
    events = engine.ledger.scan(_INITIATIVES)
    state, _ = small.replayed("initiatives", (one for one in events if one["seq"] <= upto))
    try:
        return ([], []) if state is None else projection.of_initiatives(state)
    except _ODD:
        return [], []


def _one(engine: Engine, stream: str, seen: list[Seen]) -> Seen | None:
    """Who held the place before: as it is now, if it changed too."""
    if not stream:
        return None
    known = [one for one in seen if one.state["id"] == stream] or _shown(engine, stream)
    return known[0] if known else None


def _shown(engine: Engine, stream: str) -> list[Seen]:
    """A workflow as its record shows it; where somebody has to see to that first, as the ledger."""
    try:
        position = engine.position(stream)
        if position is None:
            return []
        try:
            state = engine.replay(stream)[0] if engine.locked else engine.load(position)
        except NeedsLock:
            state = engine.replay(stream)[0]
    except (HoldfastError, *_ODD):
        return []
    return _sound(state, position.seq)


def _sound(state: Workflow, seq: int) -> list[Seen]:
    """The workflow; nothing when it is none, because an event made no sense."""
    try:
        projection.of_workflow(state, is_holder=False)
    except _ODD:
        return []
    return [projection.Seen(state, seq)]

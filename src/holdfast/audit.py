"""``verify`` and ``repair``: the ledger line by line, and every view against it."""

from __future__ import annotations

import os

from holdfast import discovery, indexes, jsontext, reconcile, small
from holdfast.core import workflow
from holdfast.core.workflow.state import is_active
from holdfast.graph import auditing
from holdfast.jsontext import BadJson
from holdfast.layers import catalog, index, records
from holdfast.layers.records import envelope, sound
from holdfast.layers.records.fields import Invalid
from holdfast.ledger.lines import BadLine
from holdfast.ledger.segment import OPEN_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Event, Fields, Workflow
    from holdfast.engine import Engine
    from holdfast.ledger.segment import Place

OWN_STREAM = "_ledger"
"""The ledger's own stream; no workflow's id begins so."""
MOST_LOST = 1_000_000
"""A larger gap was never a gap: somebody wrote a number."""
REPAIRED = "ledger_repaired"
"""The event by which a repair gives up events that are lost."""


class Report:
    """What an audit found: a line each, and whether all is well."""

    def __init__(self) -> None:
        self.lines: list[Fields] = []
        self.counts: Fields = {"events": 0, "streams": 0, "records": 0, "behind": 0, "errors": 0}

    @property
    def ok(self) -> bool:
        return not self.counts["errors"]

    def say(self, level: str, what: str, message: str) -> None:
        self.lines.append({"level": level, "what": what, "message": message})
        if level in ("error", "behind"):
            self.counts["errors" if level == "error" else "behind"] += 1


class _History:
    """The ledger as an audit reads it, line by line: states by replay, and what is wrong."""

    def __init__(self, report: Report) -> None:
        self.states: dict[str, tuple[Workflow, Event]] = {}
        self.small: dict[str, list[Event]] = {}
        """The events of the small aggregates."""
        self.broken: set[str] = set()
        """Streams that miss events."""
        self.bad_segments: set[str] = set()
        self.lost: dict[int, str] = {}
        """Seqs that no line has, with the place where they are missed."""
        self.odd: dict[int, str] = {}
        """Seqs of events that make no sense, with their place."""
        self._given_up: set[int] = set()
        self._report = report
        self._versions: dict[str, int] = {}
        self._ids: set[str] = set()
        self._next_seq = 1
        self._prev = ""
        self._after_bad = False

    def bad_line(self, place: Place, why: BadLine) -> None:
        self.bad_segments.add(place.name)
        self._after_bad = True
        self._report.say("error", str(place), f"this line is no event: {why}")

    def event(self, place: Place, event: Event) -> None:
        self._check_chain(str(place), event)
        self._next_seq, self._prev, self._after_bad = event["seq"] + 1, event["hash"], False
        self._report.counts["events"] += 1
        if event["id"] in self._ids:
            self._report.say("error", str(place), f"the id {event['id']} stands twice")
        self._ids.add(event["id"])
        if event["type"] == REPAIRED:
            self._give_up(event["data"])
        else:
            self._fold(str(place), event)

    def _give_up(self, data: Fields) -> None:
        """Takes in what a repair recorded as lost."""
        lost, streams = data.get("lost"), data.get("streams")
        for seq in lost if isinstance(lost, list) else ():
            if isinstance(seq, int):
                self.lost.pop(seq, None)
                self._given_up.add(seq)
        for stream in streams if isinstance(streams, list) else ():
            if isinstance(stream, str):
                self.broken.discard(stream)

    def odd_left(self) -> dict[int, str]:
        """Events that make no sense, without those that a repair has given up."""
        return {seq: place for seq, place in self.odd.items() if seq not in self._given_up}

    def _check_chain(self, place: str, event: Event) -> None:
        if event["seq"] - self._next_seq > MOST_LOST:
            gap = f"{self._next_seq} to {event['seq'] - 1}"
            self._report.say("error", place, f"events {gap} are missing")
        else:
            self.lost.update(dict.fromkeys(range(self._next_seq, event["seq"]), place))
        if event["seq"] < self._next_seq:
            self._report.say(
                "error", place, f"event {event['seq']} stands after {self._next_seq - 1}"
            )
        elif event["seq"] == self._next_seq and not self._after_bad and event["prev"] != self._prev:
            self._report.say(
                "error", place, f"event {event['seq']} does not continue the one before it"
            )

    def _fold(self, place: str, event: Event) -> None:
        stream = event["stream"]
        if event["version"] != self._versions.get(stream, 0) + 1:
            self.broken.add(stream)
        self._versions[stream] = event["version"]
        if small.is_small(stream):
            self.small.setdefault(stream, []).append(event)
            return
        before = self.states.get(stream)
        after = before and before[0]
        if sound.is_told(event):
            after = workflow.carried(after, event)
        is_opening = event["type"] in workflow.OPENING
        is_left_out = after is (before and before[0])
        if is_left_out:
            self.broken.add(stream)
            if before is not None or is_opening:
                self.odd[event["seq"]] = place
        elif is_opening:
            self.broken.discard(stream)
        if after is not None:
            self.states[stream] = (after, event)

    def leave_out(self, stream: str, found: list[tuple[Place, Event]]) -> None:
        """Goes through the events of a stream again, for those that lead to no state."""
        state, odd = sound.replayed([event for _, event in found])
        if state is None:
            del self.states[stream]
        else:
            self.states[stream] = (state, self.states[stream][1])
        seqs = {event["seq"] for event in odd}
        self.odd.update(
            {event["seq"]: str(place) for place, event in found if event["seq"] in seqs}
        )

    def end(self, head_seq: int) -> None:
        """``head_seq`` counts damaged lines after the last event as the events they were."""
        self._report.counts["streams"] = len(self._versions)
        for seq in range(self._next_seq, head_seq + 1):
            self.lost[seq] = OPEN_NAME
        for seq, place in self.lost.items():
            self._report.say("error", place, f"event {seq} is missing")
        for seq, place in self.odd_left().items():
            self._report.say("error", place, f"event {seq} makes no sense and is left out")
        for stream in sorted(self.broken):
            self._report.say("error", stream, "events are missing: its history is not whole")


def _read(engine: Engine, report: Report) -> _History:
    history = _History(report)
    for place, found in engine.ledger.walk():
        if isinstance(found, BadLine):
            history.bad_line(place, found)
        else:
            history.event(place, found)
    for stream in [one for one, (state, _) in history.states.items() if sound.flaw(state)]:
        found_in = engine.ledger.walk(stream)
        history.leave_out(stream, [(at, one) for at, one in found_in if isinstance(one, dict)])
    history.end(engine.ledger.head_seq)
    return history


def verify(engine: Engine) -> Report:
    """The ledger, then every view. A view that is merely behind is not an error."""
    report = Report()
    history = _read(engine, report)
    if engine.ledger.loose:
        report.say(
            "behind",
            "ledger.ndjson",
            f"{len(engine.ledger.loose)} bytes after the last commit; the next command sees to it",
        )
    _check_catalog(engine, report)
    for stream, (state, last) in history.states.items():
        if is_active(state) and stream not in history.broken:
            _check_record(engine, state, last, report)
    for stream, events in history.small.items():
        _check_small(engine, stream, events, report)
    _check_indexes(engine, history, report)
    auditing.check(engine, report)
    counts = report.counts
    if report.ok:
        report.say(
            "ok",
            "workspace",
            ", ".join([_counted(counts[name], name) for name in ("events", "streams", "records")]),
        )
    return report


def _counted(number: int, name: str) -> str:
    return f"{number} {name.removesuffix('s') if number == 1 else name}"


def _check_catalog(engine: Engine, report: Report) -> None:
    closed = engine.ledger.closed.segments()
    if not closed:
        return
    raw = engine.disk.read(engine.register.path) or b""
    found = catalog.Catalog(raw)
    if not found.is_whole or found.seq < closed[-1][2]:
        report.say("behind", catalog.NAME, "it is rebuilt when it is needed")
    elif found.seq == closed[-1][2] and raw != engine.register.built():
        report.say("error", catalog.NAME, "it does not say what the ledger says")


def _check_indexes(engine: Engine, history: _History, report: Report) -> None:
    """The index of this worktree; a wrong one is only behind, the next command writes it anew."""
    here = engine.workspace.name
    rows = [catalog.row_of(*found) for found in history.states.values()]
    mine = indexes.of_worktree(rows, here)
    own = engine.indexes.of(here) if mine else None
    if own is not None and not own.is_current(mine):
        report.say("behind", index.NAME, "it does not show the active workflows as they are")


def _check_small(engine: Engine, stream: str, events: list[Event], report: Report) -> None:
    kind = small.kind_of(stream)
    state, odd = small.replayed(kind, events)
    for event in odd:
        report.say("error", stream, f"event {event['seq']} makes no sense and is left out")
    place = small.record_of(kind).path()
    raw = engine.store.read(engine.workspace.inside(engine.workspace.root, place))
    if raw is None or state is None:
        return
    report.counts["records"] += 1
    made = small.rendered(kind, state, engine.ledger.identity(), events[-1])
    if raw != made and not _reads_alike(raw, made):
        report.say("behind", place, "it is not what the ledger says; the next look mends it")


def _reads_alike(raw: bytes, made: bytes) -> bool:
    """Whether only the layout is another: that is no edit."""
    try:
        return bool(jsontext.loads(raw) == jsontext.loads(made))
    except BadJson:
        return False


def _check_record(engine: Engine, state: Workflow, last: Event, report: Report) -> None:
    place = records.place(state)
    root = engine.workspace.root_of(state["worktree"])
    if place is None or root is None:
        return
    path = engine.workspace.inside(root, place)
    raw = engine.store.read(path)
    if raw is None:
        report.say("behind", place, "it is missing; the next command rebuilds it")
        return
    report.counts["records"] += 1
    if raw == records.render(state, engine.ledger.identity(), last["seq"], last["hash"]):
        return
    try:
        sealed = envelope.unseal(raw)
    except BadJson as bad:
        if engine.disk.is_being_written(path) or engine.store.read(path) != raw:
            report.say("behind", place, "it is being written")
        else:
            report.say(
                "error", place, f"line {bad.line}: {bad.why}; the next command sets it aside"
            )
        return
    if not sealed.intact:
        report.say("behind", place, "it was edited; the next command takes the edit in")
    elif sealed.hash != last["hash"]:
        report.say("behind", place, f"it shows event {sealed.seq}, the ledger is at {last['seq']}")
    elif not _says_the_same(engine, sealed, state, place):
        report.say("error", place, "it does not say what the ledger says")


def _says_the_same(engine: Engine, sealed: envelope.Sealed, state: Workflow, place: str) -> bool:
    origin = engine.origin(place, state["worktree"])
    try:
        return records.parse(state["recipe"]["format"], sealed, None, origin) == state
    except Invalid:
        return False


def repair(engine: Engine) -> Report:
    """Moves damage to quarantine, takes what records still know into the ledger, rebuilds views."""
    report = Report()
    history = _read(engine, Report())
    lost = sorted({*history.lost, *history.odd_left()})
    if lost:
        # First: an event whose siblings are lost must not become the end of the ledger, where it
        # would be taken for a commit that was torn.
        _record(engine, {"lost": lost})
        report.say("repaired", OPEN_NAME, f"events {lost} are recorded as lost")
    for name in sorted(history.bad_segments):
        kept = engine.ledger.rewrite_without_bad_lines(name)
        report.say("repaired", name, f"lines that are no events are kept in {kept}")
    engine.refresh()
    discovery.discover(engine)
    given_up = [
        stream for stream in sorted(history.broken) if not _goes_on(engine, stream, history, report)
    ]
    if given_up:
        _record(engine, {"lost": [], "streams": given_up})
    _rebuild_views(engine, report)
    for note in engine.notes:
        report.say("repaired", "records", note)
    engine.notes = []
    checked = verify(engine)
    report.lines += checked.lines
    report.counts = checked.counts
    return report


def _record(engine: Engine, data: Fields) -> None:
    events, blob = engine.ledger.prepare(
        [{"type": REPAIRED, "data": data}],
        stream=OWN_STREAM,
        version=0,
        at=engine.now(),
        by=engine.by,
        event_id=os.urandom(12).hex(),
    )
    engine.ledger.append(events, blob)


def _goes_on(engine: Engine, stream: str, history: _History, report: Report) -> bool:
    """A stream that misses events goes on from its record, which had seen them, if that is there;
    else from what is left of its history.
    """
    position = engine.position(stream)
    if position is None:
        report.say("repaired", stream, "nothing is left that tells where it began; given up")
        return False
    path = engine.path(position)
    raw = engine.store.read(path) if path is not None else None
    if raw is not None and envelope.shows(raw, position.hash):
        state, source = engine.load(position), position.record
    elif stream in history.states:
        state, source = history.states[stream][0], "what is left of its history"
    else:
        report.say("repaired", stream, "too little is left of its history; given up")
        return False
    now = engine.position(stream)
    if now is not None and now.hash == position.hash:
        reconcile.adopt(engine, state, position.record, state)
    report.say("repaired", stream, f"goes on from {source}")
    return True


def _rebuild_views(engine: Engine, report: Report) -> None:
    engine.register.rebuild()
    newest: dict[tuple[str, str], Fields] = {}
    for row in sorted(engine.rows(), key=lambda row: int(row["seq"])):
        newest[row["worktree"], row["record"]] = row
        position = engine.position(row["id"])
        if position is None or row["status"] not in ("in_progress", "blocked"):
            continue
        state = engine.load(position)
        path = engine.path(position)
        raw = engine.store.read(path) if path is not None else None
        if raw is not None and not _is_shown(engine, state, raw):
            engine.show_again(state["id"], None)
            report.say("repaired", position.record, "was written anew")
    for row in newest.values():
        _rebuild_ended(engine, row, report)
    own = engine.indexes.of(engine.workspace.name)
    if own is not None:
        own.rebuild()
    auditing.repair(engine, report)


def _rebuild_ended(engine: Engine, row: Fields, report: Report) -> None:
    """The record of a workflow that has ended, if it was the last in its place and is gone."""
    root = engine.workspace.root_of(row["worktree"])
    if root is None or row["status"] in ("in_progress", "blocked"):
        return
    place = records.place(engine.replay(row["id"])[0])
    raw = engine.store.read(engine.workspace.inside(root, place)) if place is not None else b"-"
    if raw is None or not raw.strip():
        engine.show_again(row["id"], raw)
        report.say("repaired", str(place), "was gone and is rebuilt")


def _is_shown(engine: Engine, state: Workflow, raw: bytes) -> bool:
    position = engine.position(state["id"])
    if position is None:
        return True
    return raw == records.render(state, engine.ledger.identity(), position.seq, position.hash)

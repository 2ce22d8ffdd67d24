"""Verify the ledger's chain of events, and compare every view with it. Nothing is changed here.

``repair.py`` rebuilds what is wrong.
"""

from __future__ import annotations

import os

from holdfast.adopt import findings, unknown_records
from holdfast.errors import Fault, HoldfastError
from holdfast.formats import LOGS, aggregate_of, is_log, is_workflow, stream_of
from holdfast.storage import skill_index
from holdfast.storage.database import NAME
from holdfast.storage.ledger import ACTIVE, BadEvent, check_event, checked_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

    from holdfast.adopt.findings import Subject
    from holdfast.core.types import Event, Fields
    from holdfast.keeper.store import Store
    from holdfast.storage.ledger import Ledger, Stream

OWN_STREAM = "_ledger"
"""The ledger's own stream. The id of a workflow cannot begin with an underscore."""
REPAIRED = "ledger_repaired"
"""The type of the event with which a repair accepts that events are lost."""
RECENT_EVENTS = 50_000
"""The number of newest events that are checked unless the caller asks for everything."""
MAX_NAMED = 20

_MEANINGS = {
    findings.STALE: ("behind", "it shows an earlier event; the next change brings it forward"),
    findings.REFUSED: ("behind", "{forecast}"),
    findings.GONE: ("behind", "it is missing; the next change rebuilds it"),
    findings.EDITED: ("behind", "it was edited; the next change takes the edit in"),
    findings.FOREIGN: ("behind", "it came from elsewhere; the next change adopts it"),
    findings.REPLACED: ("behind", "another workflow took its place; the next change adopts that"),
    findings.COMPLETED: ("behind", "its end was seen; the next change records it"),
    findings.COPY: ("behind", "a completed copy is left over; the next change removes it"),
    findings.BUSY: ("behind", "it is being written"),
    findings.EXPIRED: ("ok", ""),
}
"""The level and the message of each finding."""


class Report:
    """The result of an audit: lines, counts, and whether there are errors."""

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


def verify(store: Store, *, everything: bool = False) -> Report:
    """Check the ledger and the views. A view that is merely behind is not an error.

    In a ledger with more than ``RECENT_EVENTS``, only the newest are checked unless
    ``everything`` is true, and the report says so.
    """
    report = Report()
    after = 0
    kept, store.notes = store.notes, []
    try:
        with store.ledger.database.reading():
            after = 0 if everything else max(0, store.ledger.head_seq - RECENT_EVENTS)
            damage = [] if after else store.ledger.damage()
            for line in damage:
                report.say("error", NAME, f"it is damaged: {line}")
            chain = read_chain(store, after)
            chain.report(report)
            if not after:
                _check_streams(store, chain, report)
        if damage:
            return report
        _check_records(store, report)
        _check_other_files(store, report)
    except Fault as fault:
        if fault.code == "storage":
            raise  # The disk failed: the ledger may be sound, and a repair would not help.
        report.say("error", NAME, fault.message)
    finally:
        store.notes = kept
    if after:
        message = f"events 1 to {after} were not checked: holdfast verify --everything"
        report.say("ok", NAME, message)
    if report.ok:
        counts = [(report.counts[name], name) for name in ("events", "streams", "records")]
        listed = [f"{n} {name.removesuffix('s') if n == 1 else name}" for n, name in counts]
        report.say("ok", "workspace", ", ".join(listed))
    return report


# The chain of events


def read_chain(store: Store, after: int = 0, *, is_careful: bool = False) -> Chain:
    """Read the events after a seq, in order. Raise ``Fault`` if the database cannot be read."""
    chain = Chain(after, store.ledger.hash_at(after), is_careful=is_careful)
    return chain.read(store.ledger.raw_rows(after))


class Chain:
    """The result of reading events in order: which are damaged, missing or out of order."""

    def __init__(self, after: int = 0, prev: str = "", *, is_careful: bool = False) -> None:
        """Start after an event. A careful chain also parses the events' JSON."""
        self._check = checked_event if is_careful else check_event
        self.events = 0
        self.bad: dict[int, str] = {}
        """The reasons why events are damaged, by seq."""
        self.gaps: list[tuple[int, int]] = []
        """The first and the last missing seq of each gap."""
        self.loose: list[int] = []
        """The seqs of events whose ``prev`` is not the hash of the event before them."""
        self.broken: set[str] = set()
        """The streams with missing events."""
        self.given_up: set[str] = set()
        """The streams of which an earlier repair found too little left for a state."""
        self.versions: dict[str, int] = {}
        self._is_whole = after == 0
        self._next = after + 1
        self._prev = prev
        self._lost_before: list[tuple[int, int]] = []

    @property
    def is_sound(self) -> bool:
        return not (self.bad or self.lost() or self.loose or self.broken)

    def read(self, rows: Iterable[tuple[Any, ...]]) -> Self:
        for row in rows:
            self.add(row)
        return self

    def add(self, row: tuple[Any, ...]) -> bool:
        """Check the next row; return False if the event is damaged."""
        seq, _, _, stream, version, _, kind, _, _, _, prev, own = row
        if seq != self._next:
            self.gaps.append((self._next, seq - 1))
        try:
            self._check(row)
            if stream == OWN_STREAM:
                self._give_up(checked_event(row)["data"])
        except BadEvent as bad:
            self.bad[seq] = str(bad)
            self._next, self._prev = seq + 1, ""
            return False
        if seq == self._next and self._prev and prev != self._prev:
            self.loose.append(seq)
        self._next, self._prev = seq + 1, own
        self.events += 1
        if stream != OWN_STREAM:
            self._count(stream, version, kind)
        return True

    def _count(self, stream: str, version: int, kind: str) -> None:
        expected = self.versions.get(stream, 0 if self._is_whole else version - 1) + 1
        if version != expected:
            self.broken.add(stream)
        if kind == "record_adopted":
            # It has the whole state, so earlier events are not needed.
            self.broken.discard(stream)
            self.given_up.discard(stream)
        self.versions[stream] = version

    def _give_up(self, data: Fields) -> None:
        """Stop reporting what an earlier repair accepted as lost."""
        for gap in data.get("lost", []):
            if isinstance(gap, list) and len(gap) == 2 and all(type(seq) is int for seq in gap):
                self._lost_before.append((gap[0], gap[1]))
        self.loose = [seq for seq in self.loose if seq not in data.get("loose", [])]
        self.given_up |= {name for name in data.get("streams", []) if isinstance(name, str)}
        self.broken -= self.given_up

    def lost(self) -> list[tuple[int, int]]:
        """Return the gaps that no earlier repair has accepted as lost."""
        return [gap for gap in self.gaps if gap not in self._lost_before]

    def report(self, report: Report) -> None:
        """Add a line for each problem and the counts to the report."""
        report.counts["events"] = self.events
        report.counts["streams"] = len(self.versions)
        for seq, why in list(self.bad.items())[:MAX_NAMED]:
            report.say("error", NAME, f"event {seq} is not what was written: {why}")
        for gap in self.lost()[:MAX_NAMED]:
            report.say("error", NAME, f"{name_events(*gap)} missing")
        for seq in self.loose[:MAX_NAMED]:
            report.say("error", NAME, f"event {seq} does not continue the one before it")
        for stream in sorted(self.broken)[:MAX_NAMED]:
            report.say("error", stream, "events are missing: its history is not whole")


def name_events(first: int, last: int) -> str:
    return f"event {first} is" if first == last else f"events {first} to {last} are"


# The tables


def _check_streams(store: Store, chain: Chain, report: Report) -> None:
    """Compare the tables with the events. Skip streams with missing events, or given up."""
    skipped = chain.broken | chain.given_up
    for stream in chain.versions:
        if stream not in skipped and (is_workflow(stream) or is_log(stream)):
            _check_stream(store, stream, report)
    for row in store.ledger.rows("1"):
        if row["stream"] not in chain.versions:
            report.say("error", row["stream"], "it has a state and no events")


def _check_stream(store: Store, stream: str, report: Report) -> None:
    try:
        state, odd = aggregate_of(stream).replay(lambda: store.ledger.events(stream))
        held = store.ledger.stream(stream)
    except Fault as fault:
        report.say("error", stream, fault.message)
        return
    for event in drop_moot(store.ledger, odd):
        report.say("error", stream, f"event {event['seq']} makes no sense and is left out")
    if state is None and held is None:
        return
    if held is None or held.state != state or not _is_right(held, store):
        report.say("error", stream, "its state is not what its events give")


def drop_moot(ledger: Ledger, odd: list[Event]) -> list[Event]:
    """Return the invalid events of a stream that no later event with a whole state makes moot."""
    if not odd:
        return []
    seqs = {event["seq"] for event in odd}
    whole = [
        event["seq"]
        for event in ledger.events(odd[0]["stream"])
        if event["type"] == "record_adopted" and event["seq"] not in seqs
    ]
    return [event for event in odd if event["seq"] > max(whole, default=0)]


def _is_right(held: Stream, store: Store) -> bool:
    """Return True if the columns of a stream's row match its state and its last event."""
    last = next(store.ledger.newest(held.row["stream"], 1), None)
    if last is None or any(held.row[name] != last[name] for name in ("seq", "version", "hash")):
        return False
    columns = aggregate_of(held.row["stream"]).columns(held.state)
    parsed = ("floating", "session")
    return all(held.row[name] == value for name, value in columns.items() if name not in parsed)


# The files


def _check_records(store: Store, report: Report) -> None:
    """Compare the record of every active workflow and every log with the ledger."""
    active = [row["stream"] for row in store.ledger.rows(f"{ACTIVE} ORDER BY stream")]
    for stream in (*active, *map(stream_of, LOGS)):
        try:
            held = store.ledger.stream(stream)
        except Fault:
            continue  # ``_check_streams`` reports the stream.
        if held is not None:
            _check_record(store, store.subject_of(held), report)
        elif is_log(stream):
            # A log without events may still have a record, if the ledger was lost.
            _check_record(store, store.blank_subject(stream), report)


def _check_record(store: Store, subject: Subject, report: Report) -> None:
    if subject.path is None:
        return
    try:
        finding = findings.examine(store, subject)
    except HoldfastError as error:
        report.say("error", subject.record, error.message)
        return
    if subject.raw is not None:
        report.counts["records"] += 1
    if finding is None:
        return
    level, message = _MEANINGS[finding.kind]
    if finding.is_ahead:
        message = (
            "it shows an event that the ledger does not have: events are lost, or it is from "
            "a copy; the next change goes on from it"
        )
        level = "error"
    if level != "ok":
        report.say(level, subject.record, message.format(forecast=finding.forecast))


def _check_other_files(store: Store, report: Report) -> None:
    """Report unknown records, as after the ledger was lost, the index, and a second ledger."""
    for state in unknown_records.peek_all(store):
        message = f"the ledger does not know it: holdfast resume {state['id']} adopts it"
        report.say("behind", state["record"], message)
    index = store.indexes.of(store.workspace.name)
    if index is not None and not index.is_current():
        report.say("behind", skill_index.NAME, "it does not show the active workflows as they are")
    folder = os.path.join(store.workspace.root, ".claude", "holdfast")
    path = os.path.join(folder, NAME)
    if folder != store.workspace.home and os.path.lexists(path):
        message = "it is not this repository's ledger, and what it has recorded is not used here"
        report.say("behind", os.path.relpath(path, store.workspace.root), message)

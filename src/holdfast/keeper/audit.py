"""Verify the ledger's chain of events and every view of it, and repair them.

A repair recovers the events of a damaged ledger, rebuilds every view, and verifies again. Nothing
is deleted: a damaged database is kept beside the new one, and the content of a record file is
adopted or set aside, as in any other command.
"""

from __future__ import annotations

import os
from functools import partial
from itertools import pairwise

from holdfast import formats
from holdfast.adopt import findings, unknown_workflows
from holdfast.core import json_text
from holdfast.errors import Fault, HoldfastError
from holdfast.formats import (
    LOGS,
    aggregate_of,
    is_log,
    is_workflow,
    parse_signed,
    stream_of,
)
from holdfast.formats.schema import Invalid
from holdfast.storage import skill_index
from holdfast.storage.database import BESIDE, NAME
from holdfast.storage.ledger import ACTIVE, BadEvent, Ledger, check_event, checked_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

    from holdfast.core.types import Event, Fields
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.storage import salvage

OWN_STREAM = "_ledger"
"""The ledger's own stream. The id of a workflow cannot begin with an underscore."""
REPAIRED = "ledger_repaired"
"""The type of the event with which a repair accepts that events are lost."""
RECENT_EVENTS = 50_000
"""The number of newest events that are checked unless the caller asks for everything."""
MAX_NAMED = 20
_FOLDER = "recovering"

_MEANINGS = {
    findings.STALE: "it shows an earlier event; the next change brings it forward",
    findings.REFUSED: "{forecast}",
    findings.GONE: "it is missing; the next change rebuilds it",
    findings.EDITED: "it was edited; the next change takes the edit in",
    findings.FOREIGN: "it came from elsewhere; the next change adopts it",
    findings.REPLACED: "another workflow took its place; the next change adopts that",
    findings.COMPLETED: "its end was seen; the next change records it",
    findings.COPY: "a completed copy is left over; the next change removes it",
    findings.BUSY: "it is being written",
}
"""The message of each finding that means that a record is behind."""
_AHEAD = (
    "it shows an event that the ledger does not have: events are lost, or it is from a copy; the "
    "next change goes on from it"
)


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
    ``everything`` is true. The report states the limit.
    """
    report = Report()
    after = 0
    notes_before, store.notes = store.notes, []
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
        store.notes = notes_before
    if after:
        message = f"events 1 to {after} were not checked: holdfast verify --everything"
        report.say("ok", NAME, message)
    if report.ok:
        counts = [(report.counts[name], name) for name in ("events", "streams", "records")]
        counted = [f"{n} {name.removesuffix('s') if n == 1 else name}" for n, name in counts]
        report.say("ok", "workspace", ", ".join(counted))
    return report


# The chain of events


def read_chain(store: Store, after: int = 0, *, is_careful: bool = False) -> Chain:
    """Read the events after a seq, in order. Raise ``Fault`` if the database cannot be read."""
    chain = Chain(after, store.ledger.hash_at(after), is_careful=is_careful)
    return chain.read(store.ledger.raw_rows_after(after))


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
        """Streams with too few events left for a state, as found by an earlier repair."""
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
                self._accept_losses(checked_event(row)["data"])
        except BadEvent as bad:
            self.bad[seq] = str(bad)
            self._next, self._prev = seq + 1, ""
            return False
        if seq == self._next and self._prev and prev != self._prev:
            self.loose.append(seq)
        self._next, self._prev = seq + 1, own
        self.events += 1
        if stream == OWN_STREAM:
            return True
        if version != self.versions.get(stream, 0 if self._is_whole else version - 1) + 1:
            self.broken.add(stream)
        if kind == "record_adopted":
            # It has the whole state, so earlier events are not needed.
            self.broken.discard(stream)
            self.given_up.discard(stream)
        self.versions[stream] = version
        return True

    def _accept_losses(self, data: Fields) -> None:
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


# The tables and the files


def _check_streams(store: Store, chain: Chain, report: Report) -> None:
    """Compare the tables with the events. Skip streams with missing events and those given up."""
    ledger = store.ledger
    for stream in chain.versions:
        is_skipped = stream in chain.broken or stream in chain.given_up
        if is_skipped or not (is_workflow(stream) or is_log(stream)):
            continue
        try:
            state, row, senseless = _derive(ledger, stream)
            stored = ledger.stream(stream)
        except Fault as fault:
            report.say("error", stream, fault.message)
            continue
        for event in senseless:
            report.say("error", stream, f"event {event['seq']} makes no sense and is left out")
        # The ledger parses two columns when it reads a row; the state has them, too.
        names = row.keys() - {"floating", "session"}
        is_same = stored.state == state if stored else state is None
        if not is_same or (stored and any(stored.row[name] != row[name] for name in names)):
            report.say("error", stream, "its state is not what its events give")
    for row in ledger.rows("1"):
        if row["stream"] not in chain.versions:
            report.say("error", row["stream"], "it has a state and no events")


def _derive(ledger: Ledger, stream: str) -> tuple[Any, Fields, list[Event]]:
    """Return the state and the row that a stream's events give, and the senseless events.

    Events before one with a whole state are not among these.
    """
    aggregate = aggregate_of(stream)
    state, odd = aggregate.replay(partial(ledger.events, stream))
    if odd:
        seqs = [event["seq"] for event in odd]
        for event in ledger.events(stream):
            if event["type"] == "record_adopted" and event["seq"] not in seqs:
                odd = [other for other in odd if other["seq"] > event["seq"]]
    if state is None:
        return None, {}, odd
    last = next(ledger.newest(stream, 1))
    row = {name: last[name] for name in ("stream", "seq", "version", "hash")}
    return state, {**row, "kind": aggregate.kind, **aggregate.columns(state)}, odd


def _check_records(store: Store, report: Report) -> None:
    """Compare the record of every active workflow and every log with the ledger."""
    active = [row["stream"] for row in store.ledger.rows(f"{ACTIVE} ORDER BY stream")]
    for stream in (*active, *map(stream_of, LOGS)):
        try:
            stored = store.ledger.stream(stream)
        except Fault:
            continue  # ``_check_streams`` reports the stream.
        if stored is None and not is_log(stream):
            continue
        # A log without events may still have a record, if the ledger was lost.
        subject = store.subject_of(stored) if stored else store.blank_subject(stream)
        if subject.path is None:
            continue
        try:
            finding = findings.examine(store, subject)
        except HoldfastError as error:
            report.say("error", subject.record, error.message)
            continue
        if subject.raw is not None:
            report.counts["records"] += 1
        if finding is None:
            continue
        if finding.is_ahead:
            report.say("error", subject.record, _AHEAD)
        elif finding.kind in _MEANINGS:
            message = _MEANINGS[finding.kind].format(forecast=finding.forecast)
            report.say("behind", subject.record, message)


def _check_other_files(store: Store, report: Report) -> None:
    """Report unknown records, as after the ledger was lost, the index, and a second ledger."""
    for state in unknown_workflows.peek_all(store):
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


# Repairing


def repair(session: Session) -> Report:
    """Repair the ledger and its views; report the repairs and the result of ``verify``."""
    report = Report()
    store = session.store
    if store.ledger.exists():
        states = _recover_ledger(store, report)
        with session.transaction() as tx:
            store.workspace.prepare(store.disk, store.note)
            _repair_workspace(tx, states or store.ledger.stored_states(), report)
            for note in store.take_notes():
                report.say("repaired", "records", note)
    checked = verify(store, everything=True)
    report.lines += checked.lines
    report.counts = checked.counts
    return report


def _recover_ledger(store: Store, report: Report) -> dict[str, tuple[int, Any]]:
    """Replace a damaged database by a new one with the events that can still be read.

    Return the stored states of the damaged database by stream, each after its version.
    """
    from holdfast.storage import salvage

    database = store.ledger.database
    database.acquire_lock()
    try:
        if not _is_damaged(store):
            return {}
        folder = os.path.join(store.workspace.home, _FOLDER)
        damaged = salvage.Damaged(database.path, folder, store.disk)
        try:
            states = damaged.states()
            fresh, seqs, lost = _copy_events(store, damaged, folder)
        finally:
            damaged.close()
        backup = salvage.put_in_place(fresh, database.path, store.disk, store.stamp())
        store.disk.remove_folder(os.path.dirname(fresh))
    finally:
        database.release()
    events = "1 event" if len(seqs) == 1 else f"{len(seqs)} events"
    name = os.path.basename(backup)
    report.say("repaired", NAME, f"was made anew with {events}; the damaged one is {name}")
    for gap in lost[:MAX_NAMED]:
        report.say("repaired", NAME, f"{name_events(*gap)} lost")
    if len(lost) > MAX_NAMED:
        report.say("repaired", NAME, f"more are lost, in {len(lost) - MAX_NAMED} other gaps")
    return states


def _is_damaged(store: Store) -> bool:
    """Return True if the database must be replaced; raise ``Fault`` if it is a newer Holdfast's."""
    from holdfast.storage import salvage

    try:
        chain = read_chain(store, is_careful=True)
        is_sound = store.ledger.identity() and not (chain.bad or chain.loose)
        if not (is_sound and not store.ledger.damage() and store.ledger.has_whole_tables()):
            return True
        # Only SQLite should open the files of a sound ledger, so read its journal only if a view
        # differs from the ledger.
        levels = {line["level"] for line in verify(store).lines}
        path, head = store.ledger.database.path, store.ledger.head()
        return levels != {"ok"} and (
            salvage.journal_goes_on(path, store.disk, head, is_shown="error" in levels)
        )
    except Fault as fault:
        if fault.code == "newer_ledger":
            raise
        return True


def _copy_events(
    store: Store, damaged: salvage.Damaged, folder: str
) -> tuple[str, list[int], list[tuple[int, int]]]:
    """Write the sound events of a damaged ledger into a new one.

    Return its path, the seqs of the events, and the first and last seq of each gap between them.
    """
    for end in ("", *BESIDE):
        store.disk.remove(os.path.join(folder, NAME) + end)  # Left by a repair that was killed.
    fresh = Ledger(folder, store.disk, 1.0)
    fresh.acquire()
    try:
        fresh.begin(damaged.fact("identity"))
        chain = Chain(is_careful=True)
        seqs = []
        for row in damaged.events():
            if chain.add(row):
                fresh.keep_row(row)
                seqs.append(row[0])
        lost = [*chain.gaps, *((seq, seq) for seq in chain.bad)]
        if lost or chain.loose:
            _note_repair(store, fresh, sorted(lost), chain.loose, [])
        _rebuild_tables(fresh)
        fresh.commit("repair")
        fresh.database.close()
    finally:
        fresh.release()
    store.disk.remove(os.path.join(folder, "lock"))
    given_up = set(chain.gaps).difference(chain.lost())
    ends = pairwise([0, *seqs, max(damaged.last_seq(), *seqs[-1:], 0) + 1])
    gaps = [(before + 1, after - 1) for before, after in ends if after - before > 1]
    return fresh.database.path, seqs, [gap for gap in gaps if gap not in given_up]


def _note_repair(
    store: Store, ledger: Ledger, lost: list[tuple[int, int]], loose: list[int], streams: list[str]
) -> None:
    """Insert the event that accepts these losses."""
    data: Fields = {"lost": lost, "loose": loose, "streams": streams}
    version = next((event["version"] for event in ledger.newest(OWN_STREAM, 1)), 0)
    ledger.insert(
        [{"type": REPAIRED, "data": data}],
        stream=OWN_STREAM, version=version, at=store.now(), by=store.by,
        request=os.urandom(12).hex(),
    )  # fmt: skip


def _rebuild_tables(ledger: Ledger) -> set[str]:
    """Rebuild all rows and states from the events; return the streams with senseless events."""
    broken = set()
    ledger.drop_views()
    for stream in ledger.stream_names():
        if is_workflow(stream) or is_log(stream):
            state, row, senseless = _derive(ledger, stream)
            if senseless:
                broken.add(stream)
            if state is not None:
                ledger.put_stream(row, state)
    return broken


def _repair_workspace(tx: Transaction, states: dict[str, tuple[int, Any]], report: Report) -> None:
    """Rebuild the tables, find a state for streams with missing events, and write the records."""
    store = tx.store
    chain = read_chain(store)
    tx.begin()
    senseless = _rebuild_tables(store.ledger)
    given_up = []
    for stream in sorted((chain.broken | senseless) - chain.given_up):
        state, source = _find_state(store, stream, *states.get(stream, (0, None)))
        if state is None:
            given_up.append(stream)
            report.say("repaired", stream, "too little is left of its history; given up")
            continue
        tx.replace_state(stream, state)
        report.say("repaired", stream, f"goes on from {source}")
    if given_up or chain.lost():
        tx.begin()
        _note_repair(store, store.ledger, chain.lost(), [], given_up)
    tx.commit()  # Adopting needs the rows of the streams that were just replaced.
    store.mark_unread()
    unknown_workflows.adopt_all(tx)
    for kind in LOGS:
        tx.load(stream_of(kind))
    _write_records(tx, report)
    tx.commit()
    own = store.indexes.of(store.workspace.name)
    if own is not None and store.skill_rows(store.workspace.name):
        own.rebuild()


def _find_state(store: Store, stream: str, version: int, stored: Any) -> tuple[Any, str]:
    """Return the best state of a stream with missing events, and its source.

    It is that of an unedited record with the last event; else the stored one, as of ``version``,
    if no event after it is missing; else what the remaining events give.
    """
    last = next(store.ledger.newest(stream, 1))
    remaining = store.ledger.stream(stream)
    subject = store.subject_of(remaining) if remaining else None
    raw = None if subject is None or subject.path is None else store.files.read(subject.path)
    if subject is not None and raw is not None:
        try:
            signed = parse_signed(raw)
            is_own = signed.is_intact and signed.ledger == store.ledger.identity()
            if is_own and signed.seq >= last["seq"]:
                origin = store.origin(subject.record, subject.worktree)
                parsed = subject.aggregate.parse(signed, None, subject.record, origin)
                return parsed, subject.record
        except (json_text.BadJson, Invalid):
            pass
    for event in store.ledger.events(stream):
        if stored is not None and event["version"] > version:
            version += 1
            stored = (
                aggregate_of(stream).evolve(stored, event) if event["version"] == version else None
            )
    if stored is not None:
        return stored, "its last state"
    return (remaining.state, "what is left of its history") if remaining else (None, "")


def _write_records(tx: Transaction, report: Report) -> None:
    """Write the records of active workflows and logs anew, and missing ones of ended workflows."""
    store = tx.store
    for stored in list(store.ledger.states(f"{ACTIVE} OR kind <> 'workflow'")):
        stream = stored.row["stream"]
        tx.load(stream)
        subject = tx.subject(stream)
        if subject.path is None:
            continue
        # Do not read the file again: it may contain an edit that is not settled yet.
        raw = tx.settled_bytes(stream)
        identity = store.ledger.identity()
        if raw != subject.aggregate.render(subject.state, identity, subject.seq, subject.hash):
            report.say("repaired", subject.record, "was written again")
        tx.show(stream)
    for stored in list(store.ledger.states(f"kind = 'workflow' AND NOT {ACTIVE}")):
        stream, state = stored.row["stream"], stored.state
        record = formats.record_path(state)
        path = None if record is None else store.path_of(state["worktree"], record)
        if record is None or path is None:
            continue
        query = "kind = 'workflow' AND worktree = ? AND record = ? ORDER BY seq DESC LIMIT 1"
        newest = store.ledger.rows(query, state["worktree"], state["record"])
        raw = store.files.read(path)
        # A later workflow may have used the path of the record.
        if newest[0]["stream"] == stream and (raw is None or not raw.strip()):
            tx.load(stream)
            tx.expect(stream, raw)
            tx.show(stream)
            report.say("repaired", record, "was gone and is rebuilt")

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
from holdfast.core.workflow import is_active
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
from holdfast.keeper.facts import Facts
from holdfast.storage import skill_index
from holdfast.storage.database import ARCHIVES, BESIDE, NAME
from holdfast.storage.ledger import (
    ACTIVE,
    HUB,
    OWN_STREAM,
    REPLICA,
    BadEvent,
    Ledger,
    check_event,
    checked_event,
)
from holdfast.storage.shared_events import SharedEvents
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Self

    from holdfast.core.types import Event, Fields
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.storage import salvage
    from holdfast.storage.ledger import Stream

    Row = tuple[Any, ...]
    Progress = Callable[[str, int, int], None]

REPAIRED = "ledger_repaired"
"""The type of the event with which a repair accepts that events are lost."""
RECENT_EVENTS = 50_000
"""The number of newest events that are always checked."""
NOTE = "note"
"""The level of what was rejected or rebuilt: people should know it, and nothing is amiss."""
MAX_NAMED = 20
MARK = "verified"
"""The file beside the ledger that says up to which event it was sound."""
_MAX_MARK_BYTES = 4096
_REPORT_EVERY = 2_000
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


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Ignore how far it is."""


def verify(store: Store, *, everything: bool = False, progress: Progress = no_progress) -> Report:
    """Check the ledger and the views. A view that is merely behind is not an error.

    What an earlier ``verify`` has found sound is left out, except the newest ``RECENT_EVENTS``,
    unless ``everything`` is true. The report states the limit. ``progress`` is called with what is
    being checked, how many were, and how many there are.
    """
    report = Report()
    after = 0
    head = 0, ""
    notes_before, store.notes = store.notes, []
    try:
        with store.ledger.database.reading():
            head = store.ledger.head()
            after = 0 if everything else _sound_up_to(store, head[0])
            damage = store.ledger.database.schema_damage() if after else store.ledger.damage()
            for line in damage:
                report.say("error", NAME, f"it is damaged: {line}")
            for lost in store.ledger.check_archives(is_whole=not after):
                message = f"{lost['why']}: its {lost['events']} events cannot be read"
                report.say("error", f"{ARCHIVES}/{lost['archive']}", message)
            chain = read_chain(store, after, progress=progress)
            chain.report(report)
            _check_streams(store, chain, report, progress)
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
        message = f"events 1 to {after} were found sound before: holdfast verify --all checks them"
        report.say("ok", NAME, message)
    if report.ok:
        _write_mark(store, head)
        counts = [(report.counts[name], name) for name in ("events", "streams", "records")]
        counted = [f"{n} {name.removesuffix('s') if n == 1 else name}" for n, name in counts]
        report.say("ok", "workspace", ", ".join(counted))
    return report


def _sound_up_to(store: Store, last_seq: int) -> int:
    """Return the seq up to which nothing needs to be checked again; 0 to check everything."""
    if last_seq <= RECENT_EVENTS:
        return 0
    raw = store.disk.read_own(os.path.join(store.workspace.home, MARK), _MAX_MARK_BYTES)
    try:
        seq, own_hash = map(json_text.loads(raw or b"{}", strict=True).get, ("seq", "hash"))
    except (json_text.BadJson, AttributeError):
        return 0
    if not (type(seq) is int and 0 < seq <= last_seq) or store.ledger.hash_at(seq) != own_hash:
        return 0  # It is not of this ledger, or not a mark.
    return min(seq, last_seq - RECENT_EVENTS)


def _write_mark(store: Store, head: tuple[int, str]) -> None:
    """Note that everything up to an event is sound. Without the note, all is checked next time."""
    if head[0] <= RECENT_EVENTS:
        return
    mark = json_text.dumps({"seq": head[0], "hash": head[1], "at": store.now()})
    try:
        store.disk.replace_view(os.path.join(store.workspace.home, MARK), f"{mark}\n".encode())
    except OSError:
        return


# The chain of events


def read_chain(
    store: Store, after: int = 0, *, is_careful: bool = False, progress: Progress = no_progress
) -> Chain:
    """Read the events after a seq, in order. Raise ``Fault`` if the database cannot be read.

    ``Ledger.check_archives`` has been called: what it found unreadable is not missed.
    """
    ledger = store.ledger
    chain = Chain(after, ledger.hash_at(after), is_careful=is_careful)
    chain.absent = ledger.absent_events
    if after:
        chain.recall(event["data"] for event in ledger.events(OWN_STREAM, upto=after))
    return chain.read(_reported(ledger.raw_rows_after(after), ledger.head_seq, progress))


def _reported(rows: Iterator[Row], last: int, progress: Progress) -> Iterator[Row]:
    """Yield rows of events, and say how far it is."""
    for number, row in enumerate(rows):
        if number % _REPORT_EVERY == 0:
            progress("events", row[0], last)
        yield row


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
        self.absent = 0
        """The number of events in archives that cannot be read: so many may be missing."""
        self.given_up: set[str] = set()
        """Streams with too few events left for a state, as found by an earlier repair."""
        self.versions: dict[str, int] = {}
        self.is_whole = after == 0
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

    def recall(self, accepted: Iterable[Fields]) -> None:
        """Take what repairs before the first row have accepted."""
        for data in accepted:
            self._accept_losses(data)

    def add(self, row: tuple[Any, ...]) -> bool:
        """Check the next row; return False if the event is damaged."""
        seq, _, _, stream, version, _, kind, _, _, _, prev, own = row
        if seq < self._next:
            # An archive and the ledger have different events with this seq.
            self.bad[seq] = "there are two of them"
            return False
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
        if version != self.versions.get(stream, 0 if self.is_whole else version - 1) + 1:
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
        """Return the gaps that are neither archived nor accepted as lost by an earlier repair."""
        gaps = [gap for gap in self.gaps if gap not in self._lost_before]
        is_archived = sum(last - first + 1 for first, last in gaps) <= self.absent
        return [] if is_archived else gaps

    @property
    def accepted(self) -> int:
        """The number of missing events that earlier repairs have accepted as lost."""
        lost = [gap for gap in self.gaps if gap in self._lost_before]
        return sum(last - first + 1 for first, last in lost)

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
        broken = self.broken if self.lost() or not self.absent else ()
        for stream in sorted(broken)[:MAX_NAMED]:
            report.say("error", stream, "events are missing: its history is not whole")


def name_events(first: int, last: int) -> str:
    return f"event {first} is" if first == last else f"events {first} to {last} are"


# The tables and the files


def _check_streams(store: Store, chain: Chain, report: Report, progress: Progress) -> None:
    """Compare the tables with the events that the chain has read.

    Skip streams with missing events and those given up.
    """
    ledger = store.ledger
    for number, stream in enumerate(chain.versions):
        if number % _REPORT_EVERY == 0:
            progress("streams", number, len(chain.versions))
        is_skipped = stream in chain.broken or stream in chain.given_up
        if is_skipped or not (is_workflow(stream) or is_log(stream)):
            continue
        try:
            stored = ledger.stream(stream)
            if stored is not None and _is_as_it_ended(ledger, stored):
                continue
            state, row, senseless = _derive(ledger, stream)
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
    if chain.is_whole and not chain.absent:
        for stream in ledger.row_names():
            if stream not in chain.versions:
                report.say("error", stream, "it has a state and no events")


def _is_as_it_ended(ledger: Ledger, stored: Stream) -> bool:
    """Return whether the events of an ended workflow give its state and its row.

    No record will be made of it, so it is not tried whether one can be.
    """
    row, state = stored.row, stored.state
    if not is_workflow(row["stream"]) or is_active(state):
        return False
    aggregate = aggregate_of(row["stream"])
    last = next(ledger.newest(row["stream"], 1), None)
    columns = aggregate.columns(state)
    columns |= {"floating": row["floating"], "session": row["session"]}
    columns |= {} if last is None else {name: last[name] for name in ("seq", "version", "hash")}
    is_same = all(row[name] == value for name, value in columns.items())
    return last is not None and is_same and aggregate.gives(ledger.events(row["stream"]), state)


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
        if subject.is_workflow:
            for sentence in Facts(store.workspace).lost_commits(subject.state):
                report.say(NOTE, subject.record, sentence)
        if finding is None:
            continue
        if finding.is_ahead:
            report.say("error", subject.record, _AHEAD)
        elif finding.kind in _MEANINGS:
            message = _MEANINGS[finding.kind].format(forecast=finding.forecast)
            if finding.kind == findings.GONE and subject.raw is not None:
                message = "it is empty or cut off; the next change rebuilds it"
            report.say("behind", subject.record, message)


def _check_other_files(store: Store, report: Report) -> None:
    """Report unknown records, as after the ledger was lost, the index, and a second ledger."""
    store.notes = []
    for state in unknown_workflows.peek_all(store):
        message = f"the ledger does not know it: holdfast resume {state['id']} adopts it"
        report.say("behind", state["record"], message)
    for path in store.tracked():
        report.say("behind", path, findings.tracked_note(path))
    for note in store.notes:
        path, _, message = note.partition(" ")
        report.say(NOTE, path, message)
    for row in store.ledger.rows(f"{ACTIVE} ORDER BY stream"):
        for note in dict.fromkeys(findings.unbriefed(store, row["stream"])):
            report.say(NOTE, row["stream"], f"since its last briefing: {note}")
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
        if os.path.islink(folder):
            store.disk.remove(folder)
        damaged = salvage.Damaged(database.path, folder, store.disk)
        try:
            states = damaged.states()
            fresh, seqs, lost = _copy_events(store, damaged, folder)
        finally:
            damaged.close()
        backup = salvage.put_in_place(fresh, database.path, store.disk, store.stamp())
        for name in names_in(folder):
            store.disk.remove(os.path.join(folder, name))
        store.disk.remove_folder(folder)
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
        store.ledger.check_archives(is_whole=True)
        chain = read_chain(store, is_careful=True)
        is_sound = store.ledger.identity() and not (chain.bad or chain.loose)
        if not (is_sound and not store.ledger.damage() and store.ledger.has_whole_tables()):
            return True
        # Only SQLite should open the files of a sound ledger, so read its journal only if a view
        # differs from the ledger.
        levels = {line["level"] for line in verify(store).lines}
        path, head = store.ledger.database.path, store.ledger.head()
        return not levels <= {"ok", NOTE} and (
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
    fresh.archives_folder = store.ledger.archives_folder
    fresh.acquire()
    try:
        fresh.begin(damaged.fact("identity"))
        for name in (HUB, REPLICA):
            fresh.put_fact(name, damaged.fact(name))
        fresh.check_archives(is_whole=True)
        chain = Chain(is_careful=True)
        archived = fresh.archived_seqs()
        seqs = []
        for row in fresh.with_archived(damaged.events()):
            if chain.add(row):
                seqs.append(row[0])
                if row[0] not in archived:
                    fresh.keep_row(row)
        fresh.check_archives(is_whole=True)  # Now the events that list them are here.
        chain.absent = fresh.absent_events
        gaps = [] if chain.absent else chain.gaps
        lost = [*gaps, *((seq, seq) for seq in chain.bad)]
        if lost or chain.loose:
            _note_repair(store, fresh, sorted(lost), chain.loose, [])
        _rebuild_tables(fresh, damaged.whole_rows())
        fresh.commit("repair")
        fresh.database.close()
    finally:
        fresh.release()
    store.disk.remove(os.path.join(folder, "lock"))
    given_up = set(chain.gaps).difference(chain.lost())  # And those of missing archives.
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


def _rebuild_tables(ledger: Ledger, before: list[Row]) -> set[str]:
    """Rebuild all rows and states from the events; return the streams with senseless events.

    Where events are in an archive that cannot be read, keep what ``before`` has of the stream.
    """
    broken = set()
    kept = ledger.partly_archived(before)
    ledger.drop_views()
    for whole in kept.values():
        ledger.put_whole(whole)
    for stream in ledger.stream_names():
        if stream in kept:
            continue
        if is_workflow(stream) or is_log(stream):
            state, row, senseless = _derive(ledger, stream)
            if senseless:
                broken.add(stream)
            if state is not None:
                ledger.put_stream(row, state)
                ledger.put_glance(stream, aggregate_of(stream).glance(state))
    SharedEvents(ledger).rebuild()
    return broken


def _repair_workspace(tx: Transaction, states: dict[str, tuple[int, Any]], report: Report) -> None:
    """Rebuild the tables, find a state for streams with missing events, and write the records."""
    store = tx.store
    store.ledger.check_archives(is_whole=True)
    chain = read_chain(store)
    tx.begin()
    before = list(store.ledger.whole_rows()) if chain.absent else []
    senseless = _rebuild_tables(store.ledger, before)
    given_up = []
    # While an archive cannot be read, what it has cannot be told from what is lost.
    broken, lost = (set(), []) if chain.absent else (chain.broken, chain.lost())
    for stream in sorted((broken | senseless) - chain.given_up):
        state, source = _find_state(store, stream, *states.get(stream, (0, None)))
        if state is None:
            given_up.append(stream)
            report.say("repaired", stream, "too little is left of its history; given up")
            continue
        tx.replace_state(stream, state)
        report.say("repaired", stream, f"goes on from {source}")
    if given_up or lost:
        tx.begin()
        _note_repair(store, store.ledger, lost, [], given_up)
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

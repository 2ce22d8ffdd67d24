"""Compare every view with the ledger: its tables, the record files and the index."""

from __future__ import annotations

import os

from holdfast.adopt import findings, unknown_records
from holdfast.errors import Fault, HoldfastError
from holdfast.formats import LOGS, aggregate_of, is_log, is_workflow, stream_of
from holdfast.storage import skill_index
from holdfast.storage.database import NAME
from holdfast.storage.ledger import ACTIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.adopt.findings import Subject
    from holdfast.core.types import Event
    from holdfast.keeper.audit.chain import Chain, Report
    from holdfast.keeper.store import Store
    from holdfast.storage.ledger import Ledger, Stream

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


def check_other_ledger(store: Store, report: Report) -> None:
    """Report a ledger in the work tree that is not this repository's."""
    folder = os.path.join(store.workspace.root, ".claude", "holdfast")
    path = os.path.join(folder, NAME)
    if folder != store.workspace.home and os.path.lexists(path):
        message = "it is not this repository's ledger, and what it has recorded is not used here"
        report.say("behind", os.path.relpath(path, store.workspace.root), message)


def check_streams(store: Store, chain: Chain, report: Report) -> None:
    """Compare the tables with the events. Skip streams with missing events, or given up."""
    skipped = chain.broken | chain.given_up
    for stream in chain.versions:
        if stream not in skipped and (is_workflow(stream) or is_log(stream)):
            _check_stream(store, stream, report)
    for row in store.ledger.rows("1"):
        if row["stream"] not in chain.versions:
            report.say("error", row["stream"], "it has a state and no events")


def _check_stream(store: Store, stream: str, report: Report) -> None:
    aggregate = aggregate_of(stream)
    try:
        state, odd = aggregate.replay(lambda: store.ledger.events(stream))
        held = store.ledger.stream(stream)
    except Fault as fault:
        report.say("error", stream, fault.message)
        return
    for event in not_moot(store.ledger, odd):
        report.say("error", stream, f"event {event['seq']} makes no sense and is left out")
    if state is None and held is None:
        return
    if state is None or held is None or held.state != state or not _is_right(held, store):
        report.say("error", stream, "its state is not what its events give")


def not_moot(ledger: Ledger, odd: list[Event]) -> list[Event]:
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
    aggregate = aggregate_of(held.row["stream"])
    columns = aggregate.columns(held.state)
    last = next(store.ledger.newest(held.row["stream"], 1), None)
    if last is None or any(held.row[name] != last[name] for name in ("seq", "version", "hash")):
        return False
    parsed = ("floating", "session")
    return all(held.row[name] == value for name, value in columns.items() if name not in parsed)


def check_records(store: Store, report: Report) -> None:
    """Compare the record of every active workflow and every log with the ledger."""
    for row in store.ledger.rows(f"{ACTIVE} ORDER BY stream"):
        try:
            held = store.ledger.stream(row["stream"])
        except Fault:
            continue  # ``check_streams`` reports the stream.
        if held is not None:
            _check_record(store, store.subject_of(held), report)
    for stream in map(stream_of, LOGS):
        try:
            held = store.ledger.stream(stream)
        except Fault:
            continue
        # A log without events may still have a record, if the ledger was lost.
        subject = store.blank_subject(stream) if held is None else store.subject_of(held)
        _check_record(store, subject, report)


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


def check_unknown(store: Store, report: Report) -> None:
    """Report records that the ledger does not know, as after the ledger was lost."""
    for state in unknown_records.peek_all(store):
        message = f"the ledger does not know it: holdfast resume {state['id']} adopts it"
        report.say("behind", state["record"], message)


def check_index(store: Store, report: Report) -> None:
    """Report an index of this worktree that does not list its active skill workflows."""
    own = store.indexes.of(store.workspace.name)
    rows = store.skill_rows(store.workspace.name)
    if own is not None and rows and not own.is_current(rows):
        report.say("behind", skill_index.NAME, "it does not show the active workflows as they are")

"""Act on a finding under the lock, so that a record file and the ledger agree again.

No content is overwritten before it is in the ledger or kept under another name. Every action adds a
note.
"""

from __future__ import annotations

import os

from holdfast.adopt import findings
from holdfast.core.workflow import is_active
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.adopt import Store, Transaction
    from holdfast.adopt.findings import Finding, Subject

_REFUSED = "refused "
"""The beginning of the name of the fact that has a workflow's refused edits."""
_MAX_REFUSED = 5


def settle(tx: Transaction, subject: Subject) -> None:
    """Make the record file of a stream that was just loaded agree with it, in its own commit."""
    finding = findings.examine(tx.store, subject)
    if finding is not None:
        _settle(tx, subject, finding)


def settle_saved(tx: Transaction, stream: str, saved: str) -> None:
    """Adopt what an editor saved to the record's path while it was being replaced."""
    store = tx.store
    subject = tx.subject(stream)
    raw = store.files.read(saved)
    if raw is None:
        return
    if store.disk.is_being_written(saved):
        store.note(f"{subject.record} is being written, and is taken in when that is done")
        tx.keep_looking_for(subject.worktree, subject.record, stream)
        tx.show(stream)
        return
    finding = findings.examine_saved(store, subject, store.files.read(saved) or b"")
    subject.raw = None
    if finding is None or finding.kind in (findings.GONE, findings.STALE):
        store.note(finding.note if finding is not None else "")
        store.disk.remove(saved)
        return
    _settle(tx, subject, finding, saved=saved)


def settle_unmerged(tx: Transaction, stream: str, path: str) -> None:
    """Adopt the saves that a killed writer had not adopted yet."""
    for saved in tx.store.files.unmerged_saves(path):
        settle_saved(tx, stream, saved)


def _settle(tx: Transaction, subject: Subject, finding: Finding, *, saved: str = "") -> None:
    store, stream = tx.store, subject.stream
    if finding.kind == findings.BUSY:
        store.note(finding.note)
        tx.keep_looking_for(subject.worktree, subject.record, stream)
        return
    if finding.kind == findings.COPY:
        store.files.remove(finding.path)
        settle(tx, subject)  # A killed writer may not have written the record itself.
        return
    if finding.kind == findings.REFUSED:
        _set_aside(tx, subject, finding.note, saved)
        return
    if finding.kind == findings.REPLACED:
        _replace(tx, subject, finding)
        return
    store.note(finding.note)
    if not saved:
        tx.expect(stream, subject.raw)
    try:
        for kind, args in finding.commands:
            tx.do(stream, kind, args)
        if finding.completes and is_active(tx.state(stream)):
            tx.do(stream, *findings.completion(tx.state(stream), finding.completes))
    except Refused as refused:
        _set_aside(
            tx, subject, f"an edit of {subject.record} was refused ({refused.message})", saved
        )
        return
    tx.show(stream)
    if finding.path:
        _drop_moved(tx, finding.path)
    tx.commit()
    # Do not read the file again: it may contain the next edit by now.
    subject.raw = tx.settled(stream)
    if saved:
        store.disk.remove(saved)


def _drop_moved(tx: Transaction, path: str) -> None:
    """Allow the record that a script moved to completed to be replaced by the final one."""
    raw = tx.store.files.read(path)
    if raw is not None:
        tx.expect_at(path, raw)


def _set_aside(tx: Transaction, subject: Subject, note: str, saved: str) -> None:
    """Keep a file that cannot be adopted under another name, and write the last good state."""
    store = tx.store
    path = subject.path or ""
    # After a move that was killed, it may be in another folder than the record.
    beside = os.path.join(os.path.dirname(saved or path), os.path.basename(path))
    kept = store.files.set_aside(saved or path, subject.raw or b"", beside)
    note = f"{note}; it is kept as {os.path.basename(kept)}, and the last good state stands"
    store.note(note)
    if subject.is_workflow:
        notes = [*refused_edits(store, subject.stream), note][-_MAX_REFUSED:]
        lines = [str(store.ledger.head_seq), *(" ".join(text.split()) for text in notes)]
        tx.put_fact(f"{_REFUSED}{subject.stream}", "\n".join(lines))
    if not saved:
        subject.raw = None
        tx.expect(subject.stream, None)
    tx.show(subject.stream)
    tx.commit()
    subject.raw = tx.settled(subject.stream)


def refused_edits(store: Store, stream: str) -> list[str]:
    """Return the notes on edits of a workflow that were refused since its last briefing."""
    seq, *notes = store.ledger.fact(f"{_REFUSED}{stream}").split("\n")
    if not seq.isdecimal():
        return []
    for event in store.ledger.newest(stream):
        if event["seq"] <= int(seq):
            break
        if event["type"] == "briefing_delivered":
            return []
    return notes


def note_refused_edits(tx: Transaction, stream: str) -> None:
    """Add those notes to the answer of a command that briefs, and forget them."""
    for note in refused_edits(tx.store, stream):
        tx.store.note(note)
        tx.put_fact(f"{_REFUSED}{stream}", "")


def _replace(tx: Transaction, subject: Subject, finding: Finding) -> None:
    """Adopt the workflow whose record replaced this one, and abandon this workflow."""
    other = finding.other
    adopt(tx, other, subject.record, expected=subject.raw)
    tx.store.note(finding.note)
    drafts = tx.decide(subject.stream, *finding.commands[0])
    tx.append(subject.stream, drafts, show=False)
    tx.commit()


def adopt(tx: Transaction, parsed: Any, record: str, *, expected: bytes | None) -> Any:
    """Add a record that Holdfast did not write to the ledger, unchanged; return its state."""
    stream = parsed["id"]
    args = {"state": {**parsed, "record": record}, "record": record}
    tx.store.note(f"{record} came from elsewhere and is adopted as {stream}")
    drafts = tx.decide_new("adopt_record", args)
    tx.append(stream, drafts)
    tx.expect(stream, expected)
    tx.commit()
    return tx.state(stream)

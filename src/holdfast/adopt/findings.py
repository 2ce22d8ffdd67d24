"""Adopt a record file that differs from what Holdfast last wrote there.

``examine`` only reads and adds notes, so a look can call it, too. ``settle`` acts on the finding
under the lock. The findings are:

    finding    content of the record file                         what happens
    (None)     the record, perhaps reformatted by another tool    nothing
    STALE      a record of an earlier event: a crash, a checkout  written again
    FOREIGN    an intact record that this ledger never wrote      adopted unchanged
    REPLACED   a new workflow's record, at a path both share      adopted; this one is abandoned
    EDITED     the record, changed by hand or by a script         merged, as an event
    REFUSED    an edit that is invalid or that conflicts          set aside; written again
    GONE       no file, or an empty one                           written again
    COMPLETED  no file, which means that the workflow has ended   the workflow is completed
    COPY       an old completed copy beside an active record      removed
    BUSY       a file that another process is still writing       left alone until it is closed
    EXPIRED    the record of a workflow whose time has run out    the workflow expires
"""

from __future__ import annotations

import os

from holdfast import formats
from holdfast.core import diff, json_text, selection, workflow
from holdfast.core import time as times
from holdfast.core.refusal import shell_word
from holdfast.core.workflow import ENDED, is_active, remaining_phases
from holdfast.core.workflow.lifecycle import pending
from holdfast.errors import Refused
from holdfast.formats import is_record, schema
from holdfast.system.disk import MAX_RECORD_BYTES
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.adopt import Store, Transaction
    from holdfast.core.types import Change, Event, Fields, Workflow
    from holdfast.formats import Aggregate, SignedRecord

STALE, FOREIGN, REPLACED, EDITED = "stale", "foreign", "replaced", "edited"
REFUSED, GONE, COMPLETED, COPY = "refused", "gone", "completed", "copy"
BUSY, EXPIRED = "busy", "expired"
_FIXED = ("id", "created_at", "record", "worktree")
"""Fields that an edit cannot change, because the ledger identifies the workflow by them."""
_OWN = ("updated_at", "history_earlier")
"""Fields that the ledger itself decides."""
_UNBRIEFED = "refused "
"""The beginning of the name of the fact that has the notes for a workflow's next briefing."""
_MAX_UNBRIEFED = 5
_ORIGIN = "origin "
"""The beginning of the name of the fact that says where a workflow was recovered from."""
_NO_WORK = ("workflow_resumed", "briefing_delivered", "context_compacted", "session_ended")
"""Events after which nobody has worked on the workflow yet."""
_REREAD_AFTER_S = 0.05
_UNCHANGED_READS = 2
_MAX_READS = 6


class Location:
    """The location of a record: worktree, path from its root, and both as absolute paths."""

    __slots__ = ("address", "path", "root")

    def __init__(self, address: tuple[str, str], root: str | None, path: str | None) -> None:
        self.address = address
        """The name of the worktree, and the record's path from its root."""
        self.root = root
        self.path = path
        """The record's absolute path; ``None`` when its worktree is gone, or git tracks it."""


class Subject:
    """A stream and its record's location, as of the stream's last event in the ledger."""

    def __init__(
        self,
        aggregate: Aggregate,
        stream: str,
        state: Any,
        seq: int,
        hash: str,
        location: Location,
    ) -> None:
        self.aggregate = aggregate
        self.stream = stream
        self.state = state
        self.seq = seq
        self.hash = hash
        self.location = location
        self.worktree, self.record = location.address
        self.path = location.path
        self.is_workflow = aggregate.kind == "workflow"
        self.is_active = not self.is_workflow or is_active(state)
        self.raw: bytes | None = None
        """The content of the record file when it was last read."""


class Finding:
    """A difference between a record file and the ledger, and the commands that record it."""

    def __init__(
        self,
        kind: str,
        note: str = "",
        *,
        forecast: str = "",
        commands: list[tuple[str, Fields]] | None = None,
        completes: str = "",
        other: Any = None,
        path: str = "",
        is_ahead: bool = False,
    ) -> None:
        self.kind = kind
        self.note = note
        """The note of a transaction that settled this finding."""
        self.forecast = forecast or (note and f"{note} (recorded with its next change)")
        """The note of a reader, which records nothing."""
        self.commands = commands or []
        """The core commands that record the finding."""
        self.completes = completes
        """The reason why the workflow is completed by it; empty if it is not."""
        self.other = other
        """The state of the workflow whose record replaced this one (REPLACED)."""
        self.path = path
        """The file concerned, if it is not the record itself (COPY, COMPLETED)."""
        self.is_ahead = is_ahead
        """True if the record shows an event of this ledger that the ledger does not have."""


def examine(store: Store, subject: Subject) -> Finding | None:
    """Examine the record file. Return ``None`` if it shows the stream's last event.

    A workflow whose time has run out expires, unless the file has a new edit: a record that is
    gone or older than the ledger does not keep it alive.
    """
    if subject.path is None:
        if subject.location.root is not None:
            store.note(tracked_note(subject.record))
        elif selection.machine_of(subject.location.address[0]) is None:
            store.note(f"the worktree of {subject.stream} is gone; its state is in the ledger")
        return None
    finding = _in_place(store, subject)
    has_news = finding is not None and finding.kind not in (GONE, STALE)
    state = subject.state
    if subject.is_workflow and not has_news and selection.has_run_out(state, store.now_ms()):
        note = expiry_note(state)
        return Finding(EXPIRED, note, forecast=note, commands=[("expire_workflow", {})])
    return finding


def tracked_note(record: str) -> str:
    """Return the note on a record that git tracks."""
    return (
        f"git tracks {record}, so it is neither read nor written; to have it back: "
        f"git rm --cached {shell_word(record)}"
    )


def expiry_note(state: Any) -> str:
    return f"{_expiry(state['ttl'])}: holdfast resume {state['id']} brings it back"


def _expiry(ttl: str) -> str:
    return f"Workflow state expired (inactive > {ttl})"


def examine_saved(store: Store, subject: Subject, raw: bytes) -> Finding | None:
    """Examine what an editor saved at the moment when the record was replaced."""
    subject.raw = raw
    try:
        return _weigh(store, subject, formats.parse_signed(raw))
    except json_text.BadJson as bad:
        why = f"line {bad.line}: {bad.why}"
        note = f"what was left of {subject.record} during a write is not whole ({why})"
        return Finding(REFUSED, note)


def _in_place(store: Store, subject: Subject) -> Finding | None:
    """Examine the record file. Read it again if an editor may be in the middle of saving it."""
    path, unchanged = subject.path or "", 0
    for attempt in range(_MAX_READS):
        raw = store.files.read(path)
        unchanged = unchanged + 1 if attempt and raw == subject.raw else 0
        if raw is not None and unchanged == _UNCHANGED_READS:
            break
        subject.raw = raw
        if raw is not None and store.files.wrote(path, subject.hash, raw):
            return _completed_copy(store, subject)
        row = store.ledger.record(subject.worktree, subject.record)
        is_last = row is not None and row["seq"] == subject.seq
        if raw is not None and row and is_last and is_record(raw, row["digest"]):
            return _completed_copy(store, subject)
        if not subject.is_active:
            return _ended(store, subject, raw)
        try:
            return _weigh(store, subject, formats.parse_signed(raw or b""))
        except json_text.BadJson as error:
            bad = error
        # Without leases nobody can tell that a file is being written: one that does not make sense
        # counts only if it stays the same for a tenth of a second. The absence of a record that was
        # never written is not temporary.
        if raw is not None or (row is not None and attempt == 0):
            store.pause(_REREAD_AFTER_S)
    raw = subject.raw
    if store.disk.is_being_written(path):
        note = f"{subject.record} is being written, and is taken in when that is done"
        return Finding(BUSY, note, forecast=note)
    if raw is None or (len(raw) <= MAX_RECORD_BYTES and not raw.strip(b" \t\r\n\x00")):
        return _gone(store, subject)
    if _is_cut_off(store, subject, raw):
        note = f"{subject.record} was cut off, as by a power cut, and is rebuilt"
        return Finding(GONE, note)
    return _refused(subject, f"line {bad.line}: {bad.why}")


def _is_cut_off(store: Store, subject: Subject, raw: bytes) -> bool:
    """Return whether a file is the beginning of the record that was written last, and no more.

    Then the ledger has all that it says. A file system may put zero bytes in place of the rest.
    """
    if not subject.seq:
        return False
    identity = store.ledger.identity()
    record = subject.aggregate.render(subject.state, identity, subject.seq, subject.hash)
    return record.startswith(raw.rstrip(b"\x00"))


def _weigh(store: Store, subject: Subject, signed: SignedRecord) -> Finding | None:
    """Classify a JSON object in the record file: current, older, foreign, edited or refused."""
    if not signed.document:
        return _gone(store, subject)
    event = store.ledger.event_at(signed.seq, signed.hash)
    stream = None if event is None else event["stream"]
    if signed.is_intact and stream is not None:
        if signed.hash == subject.hash:
            return _completed_copy(store, subject)
        if not subject.is_workflow:
            # Every worktree has a copy of a log, and a change writes only one of them.
            return Finding(STALE)
        if note := _owed(store, subject):
            return Finding(STALE, note, forecast=note)
        what = "an older copy" if stream == subject.stream else f"a copy of {stream}"
        return Finding(STALE, f"{subject.record} was {what} and is brought forward")
    is_known = stream == subject.stream
    base, base_seq = subject.state, subject.seq
    if is_known and signed.seq < subject.seq:
        base, base_seq = store.state_at(subject.stream, signed.seq), signed.seq
    try:
        json_text.loads(subject.raw or b"", strict=True)
        parsed = _parse(store, subject, signed, base)
        version = _version_of(store, subject, signed, parsed, base_seq)
        if version < base_seq:
            base, base_seq = store.state_at(subject.stream, version), version
            parsed = _parse(store, subject, signed, base)
        if subject.is_workflow and not signed.is_intact and subject.seq:
            formats.check_edit(base, parsed)
    except json_text.BadJson as bad:
        return _refused(subject, f"line {bad.line}: {bad.why}")
    except schema.Invalid as invalid:
        return _refused(subject, _where(subject.raw or b"", invalid))
    if why := formats.outgrown_limit(subject.aggregate, parsed):
        return _refused(subject, why)
    if not subject.seq:
        return _foreign(store, subject, signed, parsed)
    if subject.is_workflow:
        is_new = signed.is_intact and store.ledger.stream(parsed["id"]) is None
        takes_over = is_new and formats.spec_of(parsed).is_slot
        if parsed["id"] != subject.stream and not is_known and not takes_over:
            return _refused(subject, f"it is a record of {parsed['id']}")
    is_older = (
        subject.is_workflow
        and parsed["id"] == subject.stream
        and parsed["updated_at"] <= subject.state["updated_at"]
    )
    if signed.is_intact and not is_older:
        return _foreign(store, subject, signed, parsed)
    if subject.is_workflow:
        parsed = schema.next_cycle(base, parsed)
    return _edited(store, subject, parsed, base, base_seq)


def _parse(store: Store, subject: Subject, signed: SignedRecord, base: Any) -> Any:
    """Return the state of a record; what its format cannot express is that of ``base``."""
    aggregate = subject.aggregate
    rest = aggregate.rest(base) if signed.rest is None and base is not None else signed.rest
    origin = store.origin(subject.record, subject.worktree)
    return aggregate.parse(signed, rest, subject.record, origin)


def _version_of(
    store: Store, subject: Subject, signed: SignedRecord, parsed: Any, base_seq: int
) -> int:
    """Return the event that a workflow's record shows by its time, if it is before ``base_seq``.

    What a copy says of itself may be wrong: an editor or a tool kept an old content and lost its
    ``_holdfast``, or kept the newest one. A record whose time is not in the document and that has
    no ``_holdfast`` is of the event after which the workflow was most like it.
    """
    if not subject.is_workflow or not subject.seq or parsed["id"] != subject.stream:
        return base_seq
    if parsed["updated_at"] < subject.state["updated_at"]:
        times = {
            event["seq"]: event["at"]
            for event in store.ledger.events(subject.stream, upto=base_seq)
        }
        same = [seq for seq, at in times.items() if at == parsed["updated_at"]]
        earlier = [seq for seq, at in times.items() if at <= parsed["updated_at"]]
        return max(same or earlier or [base_seq])
    if signed.rest is not None:
        return base_seq
    state, likeness = None, {}
    for event in store.ledger.events(subject.stream, upto=base_seq):
        state = subject.aggregate.evolve(state, event)
        fields = subject.aggregate.document(state).items()
        same = sum(key in signed.document and signed.document[key] == v for key, v in fields)
        likeness[event["seq"]] = same
    best = max(likeness.values(), default=0)
    return max([seq for seq, same in likeness.items() if same == best], default=base_seq)


def _where(raw: bytes, invalid: schema.Invalid) -> str:
    line = json_text.line_of_path(raw.decode(errors="replace"), invalid.path)
    return f"line {line}: {diff.path_text(invalid.path) or 'the record'} {invalid.why}"


def _refused(subject: Subject, why: str) -> Finding:
    record = subject.record
    forecast = f"{record} has an edit that cannot be adopted ({why}); its next change sets it aside"
    return Finding(REFUSED, f"an edit of {record} was refused ({why})", forecast=forecast)


def _foreign(store: Store, subject: Subject, signed: SignedRecord, parsed: Any) -> Finding:
    """Return the finding for an intact record of another ledger, or one ahead of this ledger."""
    record = subject.record
    is_own = signed.is_intact and signed.ledger == store.ledger.identity()
    is_ahead = is_own and signed.seq > store.ledger.head_seq
    if is_ahead:
        store.note(f"{record} is ahead: the ledger lost events, or it is of a copy")
    if not subject.is_workflow:
        note = f"{record} came from elsewhere and is adopted"
        args = {"state": parsed}
        return Finding(FOREIGN, note, commands=[("adopt_record", args)], is_ahead=is_ahead)
    if parsed["id"] != subject.stream:
        reason = f"its record was replaced by that of {parsed['id']}"
        return Finding(
            REPLACED,
            f"{subject.stream} is abandoned: {reason}",
            commands=[("abandon_workflow", {"reason": reason})],
            other=parsed,
        )
    if subject.seq and (undone := _undone(subject.state, parsed)):
        return _refused(subject, f"it came from elsewhere and would undo {undone}")
    args = {"state": {**parsed, "record": record}, "record": record}
    note = f"{record} came from elsewhere and is adopted as {parsed['id']}"
    return Finding(FOREIGN, note, commands=[("adopt_record", args)], is_ahead=is_ahead)


def _undone(state: Any, parsed: Any) -> str:
    """Return the first thing that is done in a workflow and not in another state of it."""
    for kind, key in (("task", "tasks"), ("phase", "phases")):
        field = "id" if kind == "task" else "name"
        done = {item[field] for item in parsed[key] if item["status"] == "completed"}
        for item in state[key]:
            if item["status"] == "completed" and item[field] not in done:
                return f"{kind} {item[field]}"
    return ""


def _edited(store: Store, subject: Subject, parsed: Any, base: Any, base_seq: int) -> Finding:
    """Return the finding for an edit by a person or a tool.

    The edit is merged, unless an event has changed one of its fields since.
    """
    state, record = subject.state, subject.record
    changes = diff.diff(base, parsed)
    if subject.is_workflow:
        for change in changes:
            if change[0][0] in _FIXED:
                store.note(f"{change[0][0]} of {subject.stream} stays {change[1]!r}")
        changes = [change for change in changes if change[0][0] not in (*_FIXED, *_OWN)]
    since = diff.diff(base, state)
    clashes = diff.conflicts(since, changes)
    if clashes:
        where = ", ".join(diff.path_text(clash) for clash in clashes)
        return _refused(subject, f"{where} was changed since by someone else")
    changes = diff.not_yet_applied([*since, *_adopted_before(store, subject, base_seq)], changes)
    # An edit of a copy from before a resume does not mean that the workflow is completed again.
    is_completed = (
        subject.is_workflow
        and parsed["status"] == "completed"
        and is_active(state)
        and is_active(base)
    )
    if is_completed:
        changes = [change for change in changes if change[0][0] not in ("status", "completed_at")]
    if not changes and not is_completed:
        is_alive = subject.is_workflow and is_active(state)
        if not is_alive or not _is_later(parsed["updated_at"], state["updated_at"]):
            return Finding(STALE)
        # A tool that sets the time, and nothing else, says that the work goes on.
        return Finding(EDITED, commands=[("adopt_edit", {"base": base_seq, "changes": []})])
    what = f": {_name_changes(changes)}" if subject.is_workflow and changes else ""
    return Finding(
        EDITED,
        f"adopted an edit of {record}{what}" if changes else "",
        forecast=f"{record} was edited{what}; its next change adopts that",
        commands=[("adopt_edit", {"base": base_seq, "changes": changes})] if changes else [],
        completes="completed by hand" if is_completed else "",
    )


def _is_later(time: str, other: str) -> bool:
    return (times.epoch_ms(time) or 0) > (times.epoch_ms(other) or 0)


def _adopted_before(store: Store, subject: Subject, base_seq: int) -> list[Change]:
    """Return the changes already adopted from edits of the record of event ``base_seq``.

    They contain this edit if a writer adopted it and was killed before rewriting the record.
    """
    return [
        change
        for event in store.ledger.events(subject.stream, after=base_seq)
        if event["type"] == "record_edited" and event["data"].get("base") == base_seq
        for change in diff.changes_in(event["data"])
    ]


def _name_changes(changes: list[Change]) -> str:
    names = [diff.path_text(change[0]) for change in changes]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _owed(store: Store, subject: Subject) -> str:
    """Return the note on a record that could not be written when it was due; else ""."""
    is_owed = store.ledger.owes_record(subject.worktree, subject.record)
    return owed_note(subject.record) if is_owed else ""


def owed_note(record: str) -> str:
    return f"{record} is owed, as its folder could not be written; a later change writes it"


def _gone(store: Store, subject: Subject) -> Finding | None:
    """Return the finding for a missing record: moved to completed, removed, or never written."""
    if note := _owed(store, subject):
        return Finding(GONE, note, forecast=note)
    if not subject.is_workflow:
        was_here = store.ledger.record(subject.worktree, subject.record) is not None
        note = f"{subject.record} was missing and was written again" if was_here else ""
        forecast = note and f"{subject.record} is gone; its next change writes it anew"
        return Finding(GONE, note, forecast=forecast) if subject.seq else None
    state = subject.state
    spec = formats.spec_of(state)
    if spec.completed:
        moved = _moved_to_completed(store, subject)
        if moved is not None:
            return moved
    if spec.archive and (ended := _ended_loop(store, subject, spec.archive)) is not None:
        return ended
    is_removed = spec.ends_when_removed and subject.raw is None
    if is_removed and _was_removed_at_the_end(store, subject):
        why = "its record was removed in the last phase"
        note = f"{subject.record} was removed in the last phase: {state['id']} is completed"
        return Finding(COMPLETED, note, completes=why)
    end = f"to end the workflow: holdfast abandon -w {state['id']}"
    note = f"{subject.record} was gone and is rebuilt; {end}"
    forecast = f"{subject.record} is gone, and its next change rebuilds it; {end}"
    return Finding(GONE, note, forecast=forecast)


def _was_removed_at_the_end(store: Store, subject: Subject) -> bool:
    """Return True if a person or a tool removed the record in the last phase to end the workflow.

    ``git clean`` also removes the mark file beside it, and a killed writer never put the record
    there.
    """
    state, path = subject.state, subject.path or ""
    if not state["phase"] or remaining_phases(state):
        return False
    root, mark = store.workspace.root_of(subject.worktree), formats.spec_of(state).mark
    if root is None or (mark and not os.path.lexists(os.path.join(root, mark))):
        return False
    return not (store.files.was_interrupted(path, subject.hash) or store.files.was_set_aside(path))


def _ended_loop(store: Store, subject: Subject, archive: str) -> Finding | None:
    """Return the finding if a finished loop's whole folder was moved to the archive, or removed.

    A tool that cleans the work tree removes the folder of all loops with it.
    """
    state, (folder, name) = subject.state, os.path.split(subject.record)
    units = state["tasks"]
    is_finished = bool(units) and all(unit["status"] == "completed" for unit in units)
    here = os.path.dirname(subject.path or "")
    is_gone = not os.path.lexists(here) and os.path.isdir(os.path.dirname(here))
    if not (is_finished and is_gone):
        return None
    for archived in _archived_folders(store, subject, archive):
        record = f"{archived}/{name}"
        path = store.workspace.inside(subject.location.root or "", record)
        raw = store.files.read(path) or b""
        try:
            signed = formats.parse_signed(raw)
        except json_text.BadJson:
            continue
        is_old = signed.is_intact and signed.hash != subject.hash
        if is_old or not _is_of_this_run(store, subject, signed):
            continue
        edits = _edits_of_moved(store, subject, path, raw, signed)
        if edits is None:
            return None
        note = f"{folder} was moved to {archived}: {state['id']} is completed"
        commands = [*edits, ("archive_loop", {"record": record})]
        return Finding(COMPLETED, note, commands=commands, path=path)
    note = f"{folder} was removed: {state['id']} is completed"
    return Finding(COMPLETED, note, commands=[("archive_loop", {"record": None})])


def _archived_folders(store: Store, subject: Subject, archive: str) -> list[str]:
    """Return the folders in the archive that have the name of a loop, perhaps with a date."""
    stream, root = subject.state["id"], subject.location.root or ""
    try:
        store.workspace.inside(root, f"{archive}{stream}")
        names = names_in(os.path.join(root, archive))
    except (OSError, Refused):
        return []
    return [
        f"{archive}{name}"
        for name in names
        if (name == stream or name.startswith(f"{stream}-"))
        and not os.path.islink(os.path.join(root, archive, name))
    ]


def _completed_path(store: Store, subject: Subject) -> str:
    record = formats.spec_of(subject.state).completed_path(subject.state["id"]) or ""
    root = store.workspace.root_of(subject.worktree) or ""
    return store.workspace.inside(root, record)


def _moved_to_completed(store: Store, subject: Subject) -> Finding | None:
    """Return the finding if a script moved the record to the folder of completed records."""
    path = _completed_path(store, subject)
    raw = store.files.read(path)
    if raw is None:
        return None
    try:
        signed = formats.parse_signed(raw)
    except json_text.BadJson:
        return None
    about = signed.document.get("workflow")
    if not isinstance(about, dict) or about.get("id") != subject.state["id"]:
        return None
    if signed.is_intact and signed.hash != subject.hash:
        return _old_copy(store, subject, path, signed)
    if not _is_of_this_run(store, subject, signed):
        return None
    commands = _edits_of_moved(store, subject, path, raw, signed)
    if commands is None:
        return None
    why = "its record was moved to completed"
    note = f"{why}: {subject.state['id']} is completed"
    return Finding(COMPLETED, note, commands=commands, completes=why, path=path)


def _edits_of_moved(
    store: Store, subject: Subject, path: str, raw: bytes, signed: SignedRecord
) -> list[tuple[str, Fields]] | None:
    """Return the commands for the edits of a moved record; ``None`` if they are refused."""
    if signed.is_intact:
        return []
    moved = Subject(
        subject.aggregate, subject.stream, subject.state, subject.seq, subject.hash,
        Location(subject.location.address, subject.location.root, path),
    )  # fmt: skip
    moved.raw = raw
    edit = _weigh(store, moved, signed)
    if edit is not None and edit.kind == REFUSED:
        store.note(edit.note)
        return None
    return [] if edit is None else edit.commands


def _completed_copy(store: Store, subject: Subject) -> Finding | None:
    """Return the finding if a script put a copy into the completed folder and kept the record."""
    root = subject.location.root
    if not subject.is_workflow or root is None or not subject.is_active:
        return None
    completed = formats.spec_of(subject.state).completed_path(subject.state["id"])
    if completed is None or not os.path.lexists(os.path.join(root, completed)):
        return None
    path = _completed_path(store, subject)
    try:
        signed = formats.parse_signed(store.files.read(path) or b"")
    except json_text.BadJson:
        return None
    about = signed.document.get("workflow")
    status = about.get("status") if isinstance(about, dict) else None
    if signed.is_intact:
        return _old_copy(store, subject, path, signed) if status in ENDED else None
    if status != "completed" or not _is_of_this_run(store, subject, signed):
        return None
    return _moved_to_completed(store, subject)


def _old_copy(store: Store, subject: Subject, path: str, signed: SignedRecord) -> Finding | None:
    """Return COPY for a copy from before a resume, if the ledger has the event that it shows."""
    event = store.ledger.event_at(signed.seq, signed.hash)
    if event is not None and event["stream"] == subject.stream:
        return Finding(COPY, path=path)
    store.note(f"a completed {subject.stream} shows event {signed.seq}: the ledger lost it")
    return None


def _is_of_this_run(store: Store, subject: Subject, signed: SignedRecord) -> bool:
    """Return True if a copy shows an event since the workflow was last opened."""
    is_shown = False
    for event in store.ledger.events(subject.stream):
        is_it = event["seq"] == signed.seq and event["hash"] == signed.hash
        is_shown = is_it or (is_shown and event["type"] not in workflow.OPENING)
    return is_shown


def completion(state: Any, reason: str) -> tuple[str, Fields]:
    """Return the command that completes a workflow because of its files on the disk."""
    return "complete_workflow", {"force": bool(pending(state)), "reason": reason}


def _ended(store: Store, subject: Subject, raw: bytes | None) -> Finding | None:
    """Return the finding for the record file of an ended workflow.

    An edit is adopted, and a copy from before the end is updated. Any other content belongs to
    another writer and is left alone.
    """
    if raw is None:
        return None
    try:
        signed = formats.parse_signed(raw)
    except json_text.BadJson:
        subject.raw = None
        return None
    if signed.is_intact and signed.seq == subject.seq:
        return None
    event = store.ledger.event_at(signed.seq, signed.hash)
    if event is None or event["stream"] != subject.stream:
        subject.raw = None
        return None
    if not signed.is_intact:
        return _weigh(store, subject, signed)
    if formats.record_path(subject.state) == subject.record:
        return Finding(STALE, f"{subject.record} was an older copy and is brought forward")
    return Finding(STALE)


# Settling: what a transaction does about a finding. No content is overwritten before it is in the
# ledger or kept under another name.


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
    finding = examine_saved(store, subject, store.files.read(saved) or b"")
    subject.raw = None
    if finding is None or finding.kind in (GONE, STALE):
        store.note(finding.note if finding is not None else "")
        store.disk.remove(saved)
        return
    settle(tx, subject, finding, saved=saved)


def settle_unmerged(tx: Transaction, stream: str, path: str) -> None:
    """Adopt the saves that a killed writer had not adopted yet."""
    for saved in tx.store.files.unmerged_saves(path):
        settle_saved(tx, stream, saved)


def settle(tx: Transaction, subject: Subject, finding: Finding, *, saved: str = "") -> None:
    """Act on the finding, so that record file and ledger agree again, in a separate commit.

    ``saved`` is the file that was found, if it is no longer at the record's path.
    """
    store, stream = tx.store, subject.stream
    if finding.kind == BUSY:
        store.note(finding.note)
        tx.keep_looking_for(subject.worktree, subject.record, stream)
        return
    if finding.kind == COPY:
        for name in store.files.remove(finding.path):
            settle_saved(tx, stream, name)
        # A killed writer may not have written the record itself.
        behind = examine(store, subject)
        if behind is not None:
            settle(tx, subject, behind)
        return
    if finding.kind == REFUSED:
        _set_aside(tx, subject, finding.note, saved)
        return
    if finding.kind == REPLACED:
        _replace(tx, subject, finding)
        return
    store.note(finding.note)
    if finding.kind == GONE and finding.note:
        _keep_to_brief(tx, subject, finding.note)
    if not saved:
        tx.expect(stream, subject.raw)
    try:
        for kind, args in finding.commands:
            for event in tx.do(stream, kind, args):
                _note_kept_phases(store, event)
        if finding.completes and is_active(tx.load(stream)):
            tx.do(stream, *completion(tx.load(stream), finding.completes))
    except Refused as refused:
        _set_aside(
            tx, subject, f"an edit of {subject.record} was refused ({refused.message})", saved
        )
        return
    tx.show(stream)
    if finding.path:
        _drop_moved(tx, finding.path)
    if saved:
        # If this process is killed before it removes the file, the next one does.
        tx.keep_looking_for(subject.worktree, subject.record, stream)
    tx.commit()
    # Do not read the file again: it may contain the next edit by now.
    subject.raw = tx.settled_bytes(stream)
    if saved:
        store.disk.remove(saved)


def _note_kept_phases(store: Store, event: Event) -> None:
    """Say which phases stay although the edit removes them, and how to leave one."""
    for name in event["data"].get("kept", ()):
        command = f"holdfast phase skip {shell_word(name)} --reason TEXT"
        store.note(f"phase {name} of {event['stream']} stays: the recipe asks for it; or {command}")


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
    target = store.files.set_aside(saved or path, subject.raw or b"", beside)
    good = "the last good state is kept" if subject.seq else "no earlier state is known"
    note = f"{note}; it is kept as {os.path.basename(target)}, and {good}"
    store.note(note)
    _keep_to_brief(tx, subject, note)
    if not saved:
        subject.raw = None
        tx.expect(subject.stream, None)
    if subject.seq:
        tx.show(subject.stream)
    tx.commit()
    subject.raw = tx.settled_bytes(subject.stream)


def keep_origin(tx: Transaction, stream: str, note: str) -> None:
    """Keep a note on where a workflow was recovered from, for all of its briefings."""
    tx.put_fact(f"{_ORIGIN}{stream}", note)


def _keep_to_brief(tx: Transaction, subject: Subject, note: str) -> None:
    """Keep a note on what became of a record for the next briefing."""
    if not subject.is_workflow:
        return
    notes = [*unbriefed(tx.store, subject.stream), note][-_MAX_UNBRIEFED:]
    lines = [str(tx.store.ledger.head_seq), *(" ".join(text.split()) for text in notes)]
    tx.put_fact(f"{_UNBRIEFED}{subject.stream}", "\n".join(lines))


def notes_to_brief(store: Store, state: Workflow) -> list[str]:
    """Return where a workflow was recovered from, and what happened to its record.

    The latter are edits that were refused and records that were rebuilt since the last briefing,
    and that its time had run out before it was resumed, until the work goes on.
    """
    notes = notes_on_record(store, state["id"])
    newest = (entry.get("event") for entry in reversed(state["history"]))
    if next((event for event in newest if event not in _NO_WORK), "") == "workflow_expired":
        notes.insert(0, f"{_expiry(str(state['ttl']))}; it was brought back")
    return notes


def notes_on_record(store: Store, stream: str) -> list[str]:
    """Return where a workflow was recovered from, and what happened to its record."""
    origin = store.ledger.fact(f"{_ORIGIN}{stream}")
    return [*([origin] if origin else []), *unbriefed(store, stream)]


def unbriefed(store: Store, stream: str) -> list[str]:
    """Return the edits that were refused and the records that were rebuilt since the briefing."""
    seq, *notes = store.ledger.fact(f"{_UNBRIEFED}{stream}").split("\n")
    if not seq.isdecimal():
        return []
    for event in store.ledger.newest(stream):
        if event["seq"] <= int(seq):
            break
        if event["type"] == "briefing_delivered":
            return []
    return notes


def take_notes_to_brief(tx: Transaction, stream: str) -> None:
    """Add the notes for the next briefing to the answer of a command that briefs."""
    for note in unbriefed(tx.store, stream):
        tx.store.note(note)
        tx.put_fact(f"{_UNBRIEFED}{stream}", "")


def _replace(tx: Transaction, subject: Subject, finding: Finding) -> None:
    """Adopt the workflow whose record replaced this one, and abandon this workflow."""
    other = finding.other
    adopt(tx, other, subject.record, expected=subject.raw)
    tx.store.note(finding.note)
    command = finding.commands[0]
    tx.append(subject.stream, tx.decide(subject.stream, *command), command, show=False)
    tx.commit()


def adopt(tx: Transaction, parsed: Any, record: str, *, expected: bytes | None) -> Any:
    """Add a record that Holdfast did not write to the ledger, unchanged; return its state."""
    stream = parsed["id"]
    args = {"state": {**parsed, "record": record}, "record": record}
    tx.store.note(f"{record} came from elsewhere and is adopted as {stream}")
    drafts = tx.decide_new("adopt_record", args)
    tx.append(stream, drafts, ("adopt_record", args))
    tx.expect(stream, expected)
    tx.commit()
    return tx.load(stream)

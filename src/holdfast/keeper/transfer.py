"""Import events: from an export, or from an earlier ledger of this folder; write exports.

An export has a header line, the events with their hashes, the current records, and an end line. An
import adds the whole file or nothing, and importing a file again changes nothing. Evidence from
another machine becomes a claim.

An earlier ledger is one from before its folder became a git repository, which the first command
takes over, or one of version 0.1. The latter may have come with the folder, so it is only imported
by ``holdfast import FOLDER``; its files are kept.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext

from holdfast import __version__, formats
from holdfast.core import diff, json_text
from holdfast.core.refusal import shell_word
from holdfast.core.workflow import is_active
from holdfast.core.workflow.edits import as_imported
from holdfast.errors import HoldfastError, Refused
from holdfast.formats import is_log, is_workflow
from holdfast.keeper.audit import Chain
from holdfast.storage.database import NAME, Database
from holdfast.storage.ledger import OWN_STREAM, BadEvent, line_of, row_of
from holdfast.storage.shared_events import SharedEvents
from holdfast.workspace.git_index import tracked_files
from holdfast.workspace.location import OLD_LEDGER, is_own_ledger, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, Any

    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction
    from holdfast.system.disk import Disk

    Row = tuple[Any, ...]

FORMAT = 1
_HEADER = "holdfast_export"
_END = "end"
"""The key of an export's last line, which has the number of events. A truncated file lacks it."""
_SURFACE = "import"
"""The surface of events that the import itself adds."""
_SEQ, _ID, _STREAM, _BY, _PART = 0, 1, 3, 8, 9
"""Columns of an event's row."""
_SEGMENT = re.compile(r"ledger-(0*[1-9][0-9]*)-[0-9]+\.ndjson")
_LOCK_WAIT_S = 10.0
_MAX_LINE_BYTES = 64 * 1024 * 1024


# Exports


def export_lines(store: Store, workflow: str | None) -> Iterator[str]:
    """Yield the export of the ledger, or of one workflow, line by line."""
    identity = store.ledger.identity()
    header = {_HEADER: FORMAT, "version": __version__, "ledger": identity, "workflow": workflow}
    yield json_text.dumps(header)
    events = 0
    for event in store.ledger.raw_rows(workflow):
        yield line_of(event)
        events += 1
    where, values = ("kind = 'workflow'", ()) if workflow is None else ("stream = ?", (workflow,))
    for stored in store.ledger.states(f"{where} ORDER BY created_at, stream", *values):
        stream, record = stored.row["stream"], formats.record_path(stored.state)
        if record is not None:
            aggregate = formats.aggregate_of(stream)
            raw = aggregate.render(stored.state, identity, stored.row["seq"], stored.row["hash"])
            line = {"record": record, "workflow": stream, "document": json_text.loads(raw)}
            yield json_text.dumps(line)
    yield json_text.dumps({_END: {"events": events}})


class Imported:
    """The result of an import."""

    def __init__(self, rows: list[Row], known: int) -> None:
        self.events = len(rows)
        self.streams = list(_by_stream(rows))
        """The streams that got new events."""
        self.known = known
        """The number of events that the ledger had already."""


def import_file(session: Session, path: str) -> Imported:
    """Import the export at ``path``, or from standard input if it is ``-``.

    A folder is that of a version 0.1 ledger: its lines that are not events are left out. Raise
    ``Refused``, and import nothing, if the file cannot be read or is not a valid export.
    """
    name = "standard input" if path == "-" else path
    store = session.store
    is_0_1 = os.path.isdir(path)
    try:
        if is_0_1:
            header, rows = _parse_0_1(path, store)
        else:
            with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
                header, rows = _parse(_lines(file, name), name)
    except OSError as error:
        why = f"import: {name} cannot be read ({error.strerror})"
        raise Refused("not_found", why, "name a file that holdfast export wrote") from error
    strictly = None if is_0_1 else name
    with session.transaction() as tx:
        if is_0_1:
            store.workspace.keep_names(store.disk)
        if not store.ledger.head_seq and header["workflow"] is None:
            done = Imported(rows, 0)
            tx.begin(header["ledger"])
            _take_in(tx, rows, {}, strictly)
        else:
            # What happened to another ledger's file did not happen to this one.
            of_work = [row for row in rows if row[_STREAM] != OWN_STREAM]
            news = [row for own in _by_stream(of_work).values() for row in _news(tx, own, name)]
            news.sort(key=lambda row: int(row[_SEQ]))
            done = Imported(news, len(rows) - len(news))
            before = {stream: tx.load(stream) for stream in done.streams}
            _take_in(tx, store.ledger.continued(news), before, strictly)
        tx.commit(is_asked=True)
    return done


def _lines(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of a file; raise ``Refused`` for one that is longer than any event."""
    for line in iter(lambda: file.readline(_MAX_LINE_BYTES + 1), b""):
        if len(line) > _MAX_LINE_BYTES:
            raise _not_an_export(name, f"a line has more than {_MAX_LINE_BYTES:,} bytes")
        yield line


def _parse(lines: Iterable[bytes], name: str) -> tuple[Fields, list[Row]]:
    """Return the header and the events of an export; raise ``Refused`` with the wrong line."""
    header: Fields | None = None
    rows: list[Row] = []
    end: object = None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text:
            continue
        try:
            if header is None:
                header = _parse_header(text)
                if _HEADER in header:
                    continue
            if text.startswith(b'{"end":'):
                end = json_text.loads(text, strict=True)
            elif not text.startswith(b'{"record":'):
                rows.append(row_of(text))
        except (BadEvent, json_text.BadJson) as bad:
            why = bad.why if isinstance(bad, json_text.BadJson) else str(bad)
            raise _not_an_export(name, f"line {number}: {why}") from None
    if header is None:
        raise _not_an_export(name, "it is empty")
    if _HEADER in header and end != {_END: {"events": len(rows)}}:
        raise _not_an_export(name, "its end is missing: it was cut off")
    chain = Chain().read(rows)
    # The export of one workflow has gaps where the ledger has events of other workflows.
    if chain.broken or (header["workflow"] is None and not chain.is_sound):
        raise _not_an_export(name, "events are missing or out of order")
    return header, rows


def _parse_header(text: bytes) -> Fields:
    """Return the header of an export, or one made from a version 0.1 ledger's first event.

    Raise ``BadEvent`` if the line is neither, ``Refused`` if a newer Holdfast wrote it.
    """
    header = json_text.loads(text, strict=True)
    if isinstance(header, dict) and header.get("seq") == 1:
        return {"ledger": str(header.get("id")), "workflow": None}
    if not isinstance(header, dict) or not isinstance(header.get(_HEADER), int):
        raise BadEvent("an export begins with another line")
    if header[_HEADER] > FORMAT:
        raise Refused(
            "newer_export",
            f"a newer Holdfast ({header.get('version')}) wrote this export",
            "install that Holdfast, then run the same command again",
        )
    identity, workflow = header.get("ledger"), header.get("workflow")
    if not isinstance(identity, str) or not isinstance(workflow, str | None):
        raise BadEvent("fields are missing or not of their kind")
    return header


def _not_an_export(name: str, why: str) -> Refused:
    return Refused(
        "invalid",
        f"import: {name} is not an export of Holdfast ({why}): nothing was taken in",
        "make one with: holdfast export > FILE",
    )


def _by_stream(rows: list[Row]) -> dict[str, list[Row]]:
    streams: dict[str, list[Row]] = {}
    for row in rows:
        streams.setdefault(row[_STREAM], []).append(row)
    return streams


def _news(tx: Transaction, rows: list[Row], name: str) -> list[Row]:
    """Return the events of a stream that the ledger does not have yet.

    Raise ``Refused`` (conflict) if the ledger has a different history of the workflow.
    """
    stream = rows[0][_STREAM]
    own_rows = [row for row in tx.store.ledger.raw_rows(stream) if not _is_of_import(row)]
    if own_rows:
        rows = [row for row in rows if not _is_of_import(row)]
    ids = [row[_ID] for row in own_rows]
    if is_log(stream):
        return [row for row in rows if row[_ID] not in ids]
    shared = min(len(ids), len(rows))
    if not is_workflow(stream) or ids[:shared] == [row[_ID] for row in rows[:shared]]:
        return rows[shared:]
    raise Refused(
        "conflict",
        f"import: {stream} has another history here than in {name}: nothing was taken in",
        f"see the one here: holdfast log {stream}",
    )


def _is_of_import(row: Row) -> bool:
    """Return True for an event that the import itself added."""
    return f'"surface":"{_SURFACE}"' in row[_BY]


def _take_in(
    tx: Transaction, rows: list[Row], before: dict[str, Workflow], name: str | None
) -> None:
    """Add events to the ledger, and turn the evidence in them into claims.

    ``before`` has the states of streams that the ledger had already. ``name`` is the export:
    raise ``Refused`` if one of its events makes no sense. Without a name, skip such events.
    An active workflow moves to this worktree if its own does not exist here.
    """
    for event in tx.take_in(rows):
        if name is not None:
            raise Refused(
                "invalid",
                f"import: event {event['id']} of {event['stream']} in {name} makes no sense: "
                "nothing was taken in",
                "ask for a new export of it",
            )
    workspace = tx.store.workspace
    if not before:
        SharedEvents(tx.store.ledger).rebuild()
    taken = {stream: tx.load(stream) for stream in _by_stream(rows) if tx.is_loaded(stream)}
    for stream in _by_stream(rows):
        if not (is_workflow(stream) and tx.is_loaded(stream)):
            continue
        state: Workflow = tx.load(stream)
        claimed = as_imported(before.get(stream), state)
        if is_active(state) and workspace.root_of(state["worktree"]) is None:
            claimed = {**claimed, "worktree": workspace.name}
        changes = diff.diff(state, claimed)  # type: ignore[arg-type]
        if changes:
            args = {"base": tx.subject(stream).seq, "changes": changes}
            drafts = tx.decide(stream, "adopt_edit", args)
            tx.append(stream, drafts, None, surface=_SURFACE)
    if tx.replica is not None:
        for stream, state in taken.items():
            tx.share(stream, before.get(stream, state))


# Earlier ledgers


def upgrade(store: Store) -> None:
    """Move a ledger from before ``git init``, once; name one of version 0.1.

    The latter may have come with the folder, in an archive or a clone, so it is left to a person to
    import it. After a failure, add a note and continue.
    """
    try:
        if _move_into_git(store):
            return
    except (HoldfastError, OSError) as error:
        store.note(f"the ledger in .claude/holdfast could not be taken over ({error})")
        return
    for folder in store.workspace.old_homes:
        if os.path.lexists(os.path.join(folder, OLD_LEDGER)):
            name = os.path.relpath(folder, store.workspace.root)
            store.note(
                f"the ledger of version 0.1 in {name} may have come with the folder, so it is not "
                f"believed; if it is yours, do this first: holdfast import {shell_word(name)}"
            )
            return


def _move_into_git(store: Store) -> bool:
    """Move a ledger from before ``git init`` into git's folder; return False if it does not exist.

    A ledger that is not on this person's list came with the folder and is not trusted. Nor is one
    that git tracks: others could have changed it.
    """
    workspace = store.workspace
    source = os.path.join(workspace.root, ".claude", "holdfast")
    path = os.path.join(source, NAME)
    if (
        source == workspace.home
        or not os.path.exists(path)
        or _is_tracked(store, source)
        or not is_own_ledger(source, workspace.root)
    ):
        return False
    old = Database(source, store.disk, _LOCK_WAIT_S, lambda: False)
    if not store.ledger.database.move_in(old):
        return False
    workspace.prepare(store.disk, store.note)
    workspace.list_ledger(store.disk)
    store.mark_unread()
    where = os.path.relpath(workspace.home, workspace.root)
    store.note(
        f"the ledger moved from .claude/holdfast to {where}, where git clean cannot reach it"
    )
    return True


def _is_tracked(store: Store, folder: str) -> bool:
    """Return True if git tracks a file in this folder of the workspace or of its main worktree."""
    workspace = store.workspace
    if workspace.git is None:
        return False
    common = workspace.common or workspace.git
    folders_by_git = {common: workspace.project, workspace.git: workspace.root}
    return any(
        tracked_files(git, common, (os.path.join(os.path.relpath(folder, top), ""),))
        for git, top in folders_by_git.items()
    )


# A ledger of version 0.1


def _parse_0_1(folder: str, store: Store) -> tuple[Fields, list[Row]]:
    """Return a header and the events of a version 0.1 ledger; note what was left out.

    Raise ``Refused`` if the folder has none.
    """
    rows, damaged = read_0_1(folder, store.disk)
    if not rows:
        raise Refused(
            "not_found",
            f"import: the folder {folder} has no ledger of version 0.1",
            "name a file that holdfast export wrote",
        )
    store.take_notes()  # That this ledger is not believed is no longer so.
    if damaged:
        store.note(f"{damaged} of its lines are not events and were left out")
    return {"ledger": rows[0][_ID], "workflow": None}, rows


def read_0_1(folder: str, disk: Disk) -> tuple[list[Row], int]:
    """Return the events of a version 0.1 ledger, in order, and how many lines are not events.

    The last commit is left out if its writer was killed before it was complete.
    """
    rows: list[Row] = []
    damaged = 0
    for path in _files_0_1(folder):
        for line in filter(None, (disk.read_own(path) or b"").split(b"\n")):
            try:
                row = row_of(line)
            except BadEvent:
                damaged += 1
                continue
            if not rows or row[_SEQ] > rows[-1][_SEQ]:
                rows.append(row)
    if rows and rows[-1][_PART] is not None:
        # Its number in its commit, and the commit's number of events.
        part = json_text.loads(rows[-1][_PART])
        is_part = isinstance(part, list) and [type(number) for number in part] == [int, int]
        if is_part and part[0] < part[1]:
            del rows[-part[0] :]
    return rows, damaged


def _files_0_1(folder: str) -> list[str]:
    """Return the files of a version 0.1 ledger: closed segments by seq, then the open one."""
    try:
        names = names_in(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    closed = [(int(match[1]), match[0]) for match in map(_SEGMENT.fullmatch, names) if match]
    ordered = [name for _, name in sorted(closed)] + [OLD_LEDGER] * (OLD_LEDGER in names)
    return [os.path.join(folder, name) for name in ordered]

"""Export events as lines of JSON, and import such a file, for a backup or a hand-over.

An export has a header line, the events with their hashes, the current records, and an end line. An
import adds the whole file or nothing, and importing a file again changes nothing. Evidence from
another machine becomes a claim.
"""

from __future__ import annotations

import sys

from holdfast import __version__, formats
from holdfast.core import diff, json_text
from holdfast.core.workflow.evidence import with_claims
from holdfast.core.workflow.state import is_active
from holdfast.errors import Refused
from holdfast.formats import is_log, is_workflow
from holdfast.keeper.audit import Chain
from holdfast.storage import event_codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper.session import Session
    from holdfast.keeper.store import Store
    from holdfast.keeper.transaction import Transaction

    Row = tuple[Any, ...]

FORMAT = 1
_HEADER = "holdfast_export"
_END = "end"
"""The key of an export's last line, which has the number of events. A truncated file lacks it."""
_SURFACE = "import"
"""The surface of events that an import adds by itself."""
_SEQ, _ID, _STREAM, _BY = 0, 1, 3, 8
"""Columns of an event's row."""


class Imported:
    """The result of an import."""

    def __init__(self, rows: list[Row], known: int) -> None:
        self.events = len(rows)
        self.streams = list(_by_stream(rows))
        """The streams that got new events."""
        self.known = known
        """The number of events that the ledger had already."""


def export_lines(store: Store, workflow: str | None) -> Iterator[str]:
    """Yield the export of the ledger, or of one workflow, line by line."""
    header = {_HEADER: FORMAT, "version": __version__, "ledger": store.ledger.identity(),
              "workflow": workflow}  # fmt: skip
    yield json_text.dumps(header)
    events = 0
    for event in store.ledger.lines(workflow):
        yield event
        events += 1
    where, values = ("kind = 'workflow'", ()) if workflow is None else ("stream = ?", (workflow,))
    for row in store.ledger.rows(f"{where} ORDER BY created_at, stream", *values):
        held = store.ledger.stream(row["stream"])
        record = None if held is None else formats.place(held.state)
        if held is not None and record is not None:
            raw = formats.render(held.state, store.ledger.identity(), row["seq"], row["hash"])
            line = {"record": record, "workflow": row["stream"], "document": json_text.loads(raw)}
            yield json_text.dumps(line)
    yield json_text.dumps({_END: {"events": events}})


def import_file(session: Session, path: str) -> Imported:
    """Import the export at ``path``, or from standard input if it is ``-``.

    Raise ``Refused`` if the file cannot be read or is not a valid export.
    """
    if path == "-":
        return import_lines(session, sys.stdin.buffer, "standard input")
    try:
        with open(path, "rb") as file:
            return import_lines(session, file, path)
    except OSError as error:
        why = f"import: {path} cannot be read ({error.strerror})"
        raise Refused("not_found", why, "name a file that holdfast export wrote") from error


def import_lines(session: Session, lines: Iterable[bytes], name: str) -> Imported:
    """Import the events of an export. Raise ``Refused``, and import nothing, if it is not valid."""
    header, rows = _parse(lines, name)
    with session.transaction() as tx:
        if not tx.store.ledger.head_seq and header["workflow"] is None:
            done = Imported(rows, 0)
            tx.begin(header["ledger"])
            take_in(tx, rows, {}, name)
        else:
            news = [row for own in _by_stream(rows).values() for row in _news(tx, own, name)]
            news.sort(key=lambda row: int(row[_SEQ]))
            done = Imported(news, len(rows) - len(news))
            before = {stream: tx.load(stream) for stream in done.streams}
            take_in(tx, tx.store.ledger.continued(news), before, name)
        tx.commit(is_asked=True)
    return done


# Reading a file


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
                header = _header(text)
                if _HEADER in header:
                    continue
            if text.startswith(b'{"end":'):
                end = json_text.loads(text, strict=True)
            elif not text.startswith(b'{"record":'):
                rows.append(event_codec.row_of(text))
        except (event_codec.BadEvent, json_text.BadJson) as bad:
            why = bad.why if isinstance(bad, json_text.BadJson) else str(bad)
            raise _not_an_export(name, f"line {number}: {why}") from None
    if header is None:
        raise _not_an_export(name, "it is empty")
    if _HEADER in header and end != {_END: {"events": len(rows)}}:
        raise _not_an_export(name, "its end is missing: it was cut off")
    _check_order(header, rows, name)
    return header, rows


def _check_order(header: Fields, rows: list[Row], name: str) -> None:
    """Raise ``Refused`` if events are missing, repeated or out of order."""
    chain = Chain()
    chain.read(rows)
    # The export of one workflow has gaps where the ledger has events of other workflows.
    if chain.broken or (header["workflow"] is None and not chain.is_sound):
        raise _not_an_export(name, "events are missing or out of order")


def _header(text: bytes) -> Fields:
    """Return the header of an export, or one made from a version 0.1 ledger's first event.

    Raise ``BadEvent`` if the line is neither, ``Refused`` if a newer Holdfast wrote it.
    """
    header = json_text.loads(text, strict=True)
    if isinstance(header, dict) and header.get("seq") == 1:
        return {"ledger": str(header.get("id")), "workflow": None}
    if not isinstance(header, dict) or not isinstance(header.get(_HEADER), int):
        raise event_codec.BadEvent("an export begins with another line")
    if header[_HEADER] > FORMAT:
        raise Refused(
            "newer_export",
            f"a newer Holdfast ({header.get('version')}) wrote this export",
            "install that Holdfast, then run the same command again",
        )
    identity, workflow = header.get("ledger"), header.get("workflow")
    if not isinstance(identity, str) or not isinstance(workflow, str | None):
        raise event_codec.BadEvent("fields are missing or not of their kind")
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


# Adding the events


def take_in(
    tx: Transaction, rows: list[Row], before: dict[str, Workflow], name: str | None
) -> None:
    """Add events to the ledger, and turn the evidence in them into claims.

    ``before`` has the states of streams that the ledger had already. ``name`` is the imported file:
    raise ``Refused`` if one of its events makes no sense. Without a name, skip such events.
    """
    for event in tx.take_in(rows):
        if name is not None:
            raise Refused(
                "invalid",
                f"import: event {event['id']} of {event['stream']} in {name} makes no sense: "
                "nothing was taken in",
                "ask for a new export of it",
            )
    for stream in _by_stream(rows):
        if is_workflow(stream) and tx.is_loaded(stream):
            _make_claims(tx, stream, before.get(stream))


def _news(tx: Transaction, rows: list[Row], name: str) -> list[Row]:
    """Return the events of a stream that the ledger does not have yet.

    Raise ``Refused`` (conflict) if the ledger has a different history of the workflow.
    """
    stream = rows[0][_STREAM]
    known = [row for row in tx.store.ledger.raw_rows(stream=stream) if not _is_of_import(row)]
    if known:
        rows = [row for row in rows if not _is_of_import(row)]
    ids = [row[_ID] for row in known]
    if is_log(stream):
        return [row for row in rows if row[_ID] not in ids]
    shared = min(len(ids), len(rows))
    if not is_workflow(stream) or ids[:shared] == [row[_ID] for row in rows[:shared]]:
        return rows[shared:]
    raise Refused(
        "conflict",
        f"import: {stream} has another history here than in {name}: nothing was taken in",
        f"holdfast log -w {stream} shows the one here",
    )


def _is_of_import(row: Row) -> bool:
    """Return True for an event that an import added by itself."""
    return f'"surface":"{_SURFACE}"' in row[_BY]


def _make_claims(tx: Transaction, stream: str, before: Workflow | None) -> None:
    """Turn evidence that this ledger did not record into claims.

    Move an active workflow to this worktree if its own does not exist here.
    """
    state: Workflow = tx.state(stream)
    workspace = tx.store.workspace
    claimed = with_claims(before, state)
    if is_active(state) and workspace.root_of(state["worktree"]) is None:
        claimed = {**claimed, "worktree": workspace.name}
    changes = diff.diff(state, claimed)  # type: ignore[arg-type]
    if changes:
        args = {"base": tx.subject(stream).seq, "changes": changes}
        tx.append(stream, tx.decide(stream, "adopt_edit", args), surface=_SURFACE)

"""The catalog: one row per stream, as of the last closed segment.

A view like any other: written when a segment is closed, thrown away and rebuilt from the ledger
when it is missing or broken. With it no command has to read more of the ledger than the open
segment: what the catalog does not say, that segment does.

The file is lines of JSON: first ``{"seq", "ledger", "rows", "digest"}``, then a row per stream, so
that one row can be found without reading the others. Each line ends in a check of itself, and the
first has the digest of all that follow. Rows stand in the order in which their streams were last
touched, segment by segment: the ledger alone gives the same bytes again.
"""

from __future__ import annotations

from holdfast import jsontext
from holdfast.core import workflow
from holdfast.core.workflow.state import find_phase, is_floating
from holdfast.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.shapes import Event, Fields, Workflow

NAME = "catalog.ndjson"
_CHECK = b',"check":"'
_CHECK_DIGITS = 8
_OR_NONE = (str, type(None))
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("id", "recipe", "format", "subject", "title", "status"), str),
    **dict.fromkeys(("worktree", "record", "created_at", "updated_at"), str),
    **dict.fromkeys(("phase", "branch", "ttl"), _OR_NONE),
}
"""What the fields of a row are, as far as others rely on it."""


class Damaged(Exception):
    """The catalog is not what was written; the ledger gives another."""


class Catalog:
    """The rows of a catalog file. What was not looked at is not checked."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        head = _opened(data[: data.find(b"\n")]) or {}
        self.seq: int = head.get("seq", -1)
        self.ledger: str = head.get("ledger", "")
        self._count: int = head.get("rows", 0)
        self._digest: str = head.get("digest", "")
        self._is_checked = False

    @property
    def is_whole(self) -> bool:
        """Whether the file is one that was written to its end."""
        return self.seq >= 0 and self._data.endswith(b"\n")

    def row(self, stream: str) -> Fields | None:
        start = self._data.find(_key(stream))
        if start >= 0:
            return self._row(self._data[start : self._data.find(b"\n", start)])
        if not self._is_checked:
            # A row that is not found may be one whose name is damaged; the digest tells it.
            self.rows(_key(stream) if self._digest else b"")
        return None

    def rows(self, naming: bytes = b"") -> list[Fields]:
        """The rows with these bytes in them."""
        lines = [line for line in self._data.split(b"\n")[1:] if line]
        whole = self._data[self._data.find(b"\n") + 1 :]
        if len(lines) != self._count or (self._digest and digest(whole) != self._digest):
            raise Damaged  # What is damaged may be the very bytes that are looked for.
        found = [self._row(line) for line in lines if naming in line]
        self._is_checked = self._is_checked or bool(self._digest) or not naming
        return found

    @staticmethod
    def _row(line: bytes) -> Fields:
        row = _opened(line)
        if row is None:
            raise Damaged
        return row

    def updated(self, seq: int, ledger: str, rows: list[Fields]) -> bytes:
        """The file's next content: these rows replace those of the same streams."""
        fresh = {row["stream"]: _closed(row) for row in rows}
        lines = []
        for line in self._data.split(b"\n")[1:]:
            stream = line[len(_KEY) : line.find(b'"', len(_KEY))].decode(errors="replace")
            if line and stream not in fresh:
                lines.append(line)
        lines += fresh.values()
        body = b"".join(line + b"\n" for line in lines)
        head = {"seq": seq, "ledger": ledger, "rows": len(lines), "digest": digest(body)}
        return _closed(head) + b"\n" + body


def built(ledger: str, segments: Callable[[], Iterable[tuple[int, list[Event]]]]) -> bytes:
    """The catalog out of nothing but closed segments: the last seq of each, and its events."""
    states: dict[str, Workflow] = {}
    order: dict[str, Event] = {}
    seq = 0
    for last_seq, events in segments():
        seq = last_seq
        touched: dict[str, Event] = {}
        for event in events:
            if has_no_workflow(event["stream"]):
                touched[event["stream"]] = event
                continue
            state = workflow.carried(states.get(event["stream"]), event)
            if state is not None:
                states[event["stream"]] = state
                touched[event["stream"]] = event
        order = {**{s: last for s, last in order.items() if s not in touched}, **touched}
    rows = []
    for stream, last in order.items():
        if has_no_workflow(stream):
            rows.append(bare_row(last))
            continue
        row = _row_if_right(states[stream], last) or _row_of_the_rest(segments, last)
        if row is not None:
            rows.append(row)
    return Catalog(b"").updated(seq, ledger, rows)


def _row_if_right(state: Workflow, last: Event) -> Fields | None:
    """The row; ``None`` when the state is not one, because an event made no sense."""
    try:
        row = row_of(state, last)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    session = row["session"]
    is_held = isinstance(session, dict) and isinstance(session.get("id"), str)
    is_right = row["id"] == row["stream"] and (is_held or session is None)
    return row if is_right and all(isinstance(row[key], _KINDS[key]) for key in _KINDS) else None


def _row_of_the_rest(
    segments: Callable[[], Iterable[tuple[int, list[Event]]]], last: Event
) -> Fields | None:
    """The row of a stream without those of its events that make no sense."""
    from holdfast.layers.records import sound

    stream = last["stream"]
    events = [event for _, found in segments() for event in found if event["stream"] == stream]
    state, _ = sound.replayed(events)
    return None if state is None else _row_if_right(state, last)


def _closed(row: Fields) -> bytes:
    """The row as a line with its check."""
    body = jsontext.dumps(row)[:-1].encode()
    return body + _CHECK + digest(body)[:_CHECK_DIGITS].encode() + b'"}'


def _opened(line: bytes) -> Fields | None:
    """The row of a line; ``None`` when it is not what was written."""
    body, found, check = line.rpartition(_CHECK)
    if not found or check != digest(body)[:_CHECK_DIGITS].encode() + b'"}':
        return None
    row: Fields = jsontext.loads(body + b"}")
    return row


_KEY = b'{"stream":"'


def _key(stream: str) -> bytes:
    return _KEY + stream.encode(errors="replace") + b'"'


def has_no_workflow(stream: str) -> bool:
    """Whether it is a stream of another kind: no workflow's id begins so."""
    return stream.startswith("_")


def bare_row(last: Event) -> Fields:
    """A stream without a workflow: which event is its last."""
    return {key: last[key] for key in ("stream", "seq", "version", "hash")}


def is_bare(row: Fields) -> bool:
    return "id" not in row


def row_of(state: Workflow, last: Event) -> Fields:
    """A workflow in one line: where it stands, and which event shows it."""
    names = [phase["name"] for phase in state["phases"]]
    current = find_phase(state, state["phase"])
    return {
        "stream": last["stream"],
        "seq": last["seq"],
        "version": last["version"],
        "hash": last["hash"],
        "id": state["id"],
        "recipe": state["recipe"]["name"],
        "format": state["recipe"]["format"],
        "subject": state["subject"],
        "title": state["title"],
        "status": state["status"],
        "phase": state["phase"],
        "phase_status": current["status"] if current else None,
        "phase_index": names.index(state["phase"]) + 1 if state["phase"] in names else 0,
        "phase_total": len(names),
        "tasks_done": sum(task["status"] == "completed" for task in state["tasks"]),
        "tasks_total": len(state["tasks"]),
        "branch": state["branch"],
        "floating": is_floating(state),
        "worktree": state["worktree"],
        "record": state["record"],
        "session": state["session"],
        "ttl": state["ttl"],
        "created_at": state["created_at"],
        "updated_at": state["updated_at"],
    }

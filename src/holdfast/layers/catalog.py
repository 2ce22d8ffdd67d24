"""The catalog: one row per stream, as of the last closed segment.

A view like any other: written when a segment is closed, thrown away and rebuilt from the ledger
when it is missing or broken. With it no command has to read more of the ledger than the open
segment: what the catalog does not say, that segment does.

The file is lines of JSON: first ``{"seq", "ledger", "rows"}``, then a row per stream, so that one
row can be found without reading the others. Each line ends in a check of itself. Rows stand in the
order in which their streams were last touched, segment by segment: the ledger alone gives the same
bytes again.
"""

from __future__ import annotations

from holdfast import jsontext
from holdfast.core import workflow
from holdfast.core.workflow.state import find_phase, is_floating
from holdfast.digest import digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.shapes import Event, Fields, Workflow

NAME = "catalog.ndjson"
_CHECK = b',"check":"'
_CHECK_DIGITS = 8


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
            # A row that is not found may be one whose name is damaged.
            self.rows()
        return None

    def rows(self) -> list[Fields]:
        found = [self._row(line) for line in self._data.split(b"\n")[1:] if line]
        if len(found) != self._count:
            raise Damaged
        self._is_checked = True
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
        head = {"seq": seq, "ledger": ledger, "rows": len(lines) + len(fresh)}
        return b"\n".join([_closed(head), *lines, *fresh.values()]) + b"\n"


def built(ledger: str, segments: Iterable[tuple[int, list[Event]]]) -> bytes:
    """The catalog out of nothing but closed segments: the last seq of each, and its events."""
    states: dict[str, Workflow] = {}
    order: dict[str, Event] = {}
    seq = 0
    for last_seq, events in segments:
        seq = last_seq
        touched: dict[str, Event] = {}
        for event in events:
            state = workflow.carried(states.get(event["stream"]), event)
            if state is not None:
                states[event["stream"]] = state
                touched[event["stream"]] = event
        order = {**{s: last for s, last in order.items() if s not in touched}, **touched}
    rows = [row_of(states[stream], last) for stream, last in order.items()]
    return Catalog(b"").updated(seq, ledger, rows)


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

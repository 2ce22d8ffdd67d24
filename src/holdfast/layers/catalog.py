"""The catalog: one row per stream, as of the last closed segment.

A view like any other: written when a segment is closed, thrown away and rebuilt from the ledger
when it is missing or broken. With it no command has to read more of the ledger than the open
segment: what the catalog does not say, that segment does.

The file is lines of JSON: first ``{"seq", "ledger"}``, then a row per stream, so that one row can
be found without reading the others.
"""

from __future__ import annotations

from holdfast import jsontext
from holdfast.core.workflow.state import find_phase, is_floating

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.shapes import Event, Fields, Workflow

NAME = "catalog.ndjson"


class Catalog:
    """The rows of a catalog file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        head = self._parsed(data[: data.find(b"\n")]) or {}
        self.seq: int = head.get("seq", -1)
        self.ledger: str = head.get("ledger", "")

    @property
    def is_whole(self) -> bool:
        """Whether the file is one that was written to its end."""
        return self.seq >= 0 and self._data.endswith(b"\n")

    def row(self, stream: str) -> Fields | None:
        start = self._data.find(_key(stream))
        if start < 0:
            return None
        return self._parsed(self._data[start : self._data.find(b"\n", start)])

    def rows(self) -> Iterator[Fields]:
        for line in self._data.split(b"\n")[1:]:
            row = self._parsed(line) if line else None
            if row is not None:
                yield row

    def updated(self, seq: int, ledger: str, rows: list[Fields]) -> bytes:
        """The file's next content: these rows replace those of the same streams."""
        fresh = {row["stream"]: jsontext.dumps(row).encode() for row in rows}
        lines = [jsontext.dumps({"seq": seq, "ledger": ledger}).encode()]
        for line in self._data.split(b"\n")[1:]:
            stream = line[len(_KEY) : line.find(b'"', len(_KEY))].decode()
            if line and stream not in fresh:
                lines.append(line)
        return b"\n".join([*lines, *fresh.values()]) + b"\n"

    @staticmethod
    def _parsed(line: bytes) -> Fields | None:
        try:
            found = jsontext.loads(line)
        except jsontext.BadJson:
            return None
        return found if isinstance(found, dict) else None


_KEY = b'{"stream":"'


def _key(stream: str) -> bytes:
    return _KEY + stream.encode() + b'"'


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

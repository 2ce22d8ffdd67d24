"""Check the ledger's events in order: which are damaged, missing or out of order."""

from __future__ import annotations

from holdfast.storage import event_codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.core.types import Fields

OWN_STREAM = "_ledger"
"""The ledger's own stream. The id of a workflow cannot begin with an underscore."""
REPAIRED = "ledger_repaired"
"""The type of the event with which a repair accepts that events are lost."""
LEDGER = "ledger.db"
_MAX_NAMED = 20


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


class Chain:
    """The result of reading events in order."""

    def __init__(self, after: int = 0, prev: str = "", *, is_careful: bool = False) -> None:
        """Start after an event. A careful chain also parses the events' JSON."""
        self._check = event_codec.checked if is_careful else event_codec.check
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
        """The streams of which an earlier repair found too little left for a state."""
        self.versions: dict[str, int] = {}
        self._is_whole = after == 0
        self._next = after + 1
        self._prev = prev
        self._lost_before: list[tuple[int, int]] = []

    @property
    def is_sound(self) -> bool:
        return not (self.bad or self.lost() or self.loose or self.broken)

    def read(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            self.add(row)

    def add(self, row: tuple[Any, ...]) -> bool:
        """Check the next row; return False if the event is damaged."""
        seq, _, _, stream, version, _, kind, _, _, _, prev, own = row
        if seq != self._next:
            self.gaps.append((self._next, seq - 1))
        try:
            self._check(row)
            if stream == OWN_STREAM:
                self._give_up(event_codec.checked(row)["data"])
        except event_codec.BadEvent as bad:
            self.bad[seq] = str(bad)
            self._next, self._prev = seq + 1, ""
            return False
        if seq == self._next and self._prev and prev != self._prev:
            self.loose.append(seq)
        self._next, self._prev = seq + 1, own
        self.events += 1
        if stream != OWN_STREAM:
            self._count(stream, version, kind)
        return True

    def _count(self, stream: str, version: int, kind: str) -> None:
        expected = self.versions.get(stream, 0 if self._is_whole else version - 1) + 1
        if version != expected:
            self.broken.add(stream)
        if kind == "record_adopted":
            # It has the whole state, so earlier events are not needed.
            self.broken.discard(stream)
            self.given_up.discard(stream)
        self.versions[stream] = version

    def _give_up(self, data: Fields) -> None:
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
        for seq, why in list(self.bad.items())[:_MAX_NAMED]:
            report.say("error", LEDGER, f"event {seq} is not what was written: {why}")
        for first, last in self.lost()[:_MAX_NAMED]:
            which = f"event {first} is" if first == last else f"events {first} to {last} are"
            report.say("error", LEDGER, f"{which} missing")
        for seq in self.loose[:_MAX_NAMED]:
            report.say("error", LEDGER, f"event {seq} does not continue the one before it")
        for stream in sorted(self.broken)[:_MAX_NAMED]:
            report.say("error", stream, "events are missing: its history is not whole")


def give_up(lost: list[tuple[int, int]], loose: list[int], streams: list[str]) -> Fields:
    """Return the data of a ``ledger_repaired`` event, which accepts these losses."""
    return {"lost": [list(gap) for gap in lost], "loose": loose, "streams": streams}

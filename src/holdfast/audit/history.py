"""What the ledger tells an audit, line by line, and what is wrong with it."""

from __future__ import annotations

from holdfast import small
from holdfast.core import workflow
from holdfast.layers.records import sound
from holdfast.ledger.lines import BadLine
from holdfast.ledger.segment import OPEN_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Event, Fields, Workflow
    from holdfast.engine import Engine
    from holdfast.ledger.segment import Place

OWN_STREAM = "_ledger"
"""The ledger's own stream; no workflow's id begins so."""
MOST_LOST = 1_000_000
"""A larger gap was never a gap: somebody wrote a number."""
REPAIRED = "ledger_repaired"
"""The event by which a repair gives up events that are lost."""


class Report:
    """What an audit found: a line each, and whether all is well."""

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


class History:
    """The ledger as an audit reads it, line by line: states by replay, and what is wrong."""

    def __init__(self, report: Report) -> None:
        self.states: dict[str, tuple[Workflow, Event]] = {}
        self.small: dict[str, list[Event]] = {}
        """The events of the small aggregates."""
        self.broken: set[str] = set()
        """Streams that miss events."""
        self.bad_segments: set[str] = set()
        self.lost: dict[int, str] = {}
        """Seqs that no line has, with the place where they are missed."""
        self.odd: dict[int, str] = {}
        """Seqs of events that make no sense, with their place."""
        self._given_up: set[int] = set()
        self._report = report
        self._versions: dict[str, int] = {}
        self._ids: set[str] = set()
        self._next_seq = 1
        self._prev = ""
        self._after_bad = False

    def bad_line(self, place: Place, why: BadLine) -> None:
        self.bad_segments.add(place.name)
        self._after_bad = True
        self._report.say("error", str(place), f"this line is no event: {why}")

    def event(self, place: Place, event: Event) -> None:
        self._check_chain(str(place), event)
        self._next_seq, self._prev, self._after_bad = event["seq"] + 1, event["hash"], False
        self._report.counts["events"] += 1
        if event["id"] in self._ids:
            self._report.say("error", str(place), f"the id {event['id']} stands twice")
        self._ids.add(event["id"])
        if event["type"] == REPAIRED:
            self._give_up(event["data"])
        else:
            self._fold(str(place), event)

    def _give_up(self, data: Fields) -> None:
        """Takes in what a repair recorded as lost."""
        lost, streams = data.get("lost"), data.get("streams")
        for seq in lost if isinstance(lost, list) else ():
            if isinstance(seq, int):
                self.lost.pop(seq, None)
                self._given_up.add(seq)
        for stream in streams if isinstance(streams, list) else ():
            if isinstance(stream, str):
                self.broken.discard(stream)

    def odd_left(self) -> dict[int, str]:
        """Events that make no sense, without those that a repair has given up."""
        return {seq: place for seq, place in self.odd.items() if seq not in self._given_up}

    def _check_chain(self, place: str, event: Event) -> None:
        if event["seq"] - self._next_seq > MOST_LOST:
            gap = f"{self._next_seq} to {event['seq'] - 1}"
            self._report.say("error", place, f"events {gap} are missing")
        else:
            self.lost.update(dict.fromkeys(range(self._next_seq, event["seq"]), place))
        if event["seq"] < self._next_seq:
            self._report.say(
                "error", place, f"event {event['seq']} stands after {self._next_seq - 1}"
            )
        elif event["seq"] == self._next_seq and not self._after_bad and event["prev"] != self._prev:
            self._report.say(
                "error", place, f"event {event['seq']} does not continue the one before it"
            )

    def _fold(self, place: str, event: Event) -> None:
        stream = event["stream"]
        if event["version"] != self._versions.get(stream, 0) + 1:
            self.broken.add(stream)
        self._versions[stream] = event["version"]
        if small.is_small(stream):
            self.small.setdefault(stream, []).append(event)
            return
        before = self.states.get(stream)
        after = before and before[0]
        if sound.is_told(event):
            after = workflow.carried(after, event)
        is_opening = event["type"] in workflow.OPENING
        is_left_out = after is (before and before[0])
        if is_left_out:
            self.broken.add(stream)
            if before is not None or is_opening:
                self.odd[event["seq"]] = place
        elif is_opening:
            self.broken.discard(stream)
        if after is not None:
            self.states[stream] = (after, event)

    def leave_out(self, stream: str, found: list[tuple[Place, Event]]) -> None:
        """Goes through the events of a stream again, for those that lead to no state."""
        state, odd = sound.replayed([event for _, event in found])
        if state is None:
            del self.states[stream]
        else:
            self.states[stream] = (state, self.states[stream][1])
        seqs = {event["seq"] for event in odd}
        self.odd.update(
            {event["seq"]: str(place) for place, event in found if event["seq"] in seqs}
        )

    def end(self, head_seq: int) -> None:
        """``head_seq`` counts damaged lines after the last event as the events they were."""
        self._report.counts["streams"] = len(self._versions)
        for seq in range(self._next_seq, head_seq + 1):
            self.lost[seq] = OPEN_NAME
        for seq, place in self.lost.items():
            self._report.say("error", place, f"event {seq} is missing")
        for seq, place in self.odd_left().items():
            self._report.say("error", place, f"event {seq} makes no sense and is left out")
        for stream in sorted(self.broken):
            self._report.say("error", stream, "events are missing: its history is not whole")


def read(engine: Engine, report: Report) -> History:
    history = History(report)
    for place, found in engine.ledger.walk():
        if isinstance(found, BadLine):
            history.bad_line(place, found)
        else:
            history.event(place, found)
    for stream in [one for one, (state, _) in history.states.items() if sound.flaw(state)]:
        found_in = engine.ledger.walk(stream)
        history.leave_out(stream, [(at, one) for at, one in found_in if isinstance(one, dict)])
    history.end(engine.ledger.head_seq)
    return history

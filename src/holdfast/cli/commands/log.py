"""``holdfast log``: the events, oldest first, and those to come."""

from __future__ import annotations

from itertools import chain, islice

from holdfast.answers.failure import failure_fields
from holdfast.answers.text import clean
from holdfast.cli.answer import Answer, Stream, encode
from holdfast.cli.grammar import WORKFLOW, command, flag, option
from holdfast.cli.screen import cells, padded, pairs
from holdfast.core.diff import path_text
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Event, Fields, Json
    from holdfast.keeper import Keeper

_STREAM_MAX, _TYPE_COLUMNS = 28, 18
_FIRST_EVENTS = 200
_COMMIT_CHARS = 12
_GAP = "  "
_NOT_SHOWN_OF_START = ("record", "ttl", "base")
_FAULT = 3


@command(
    "log",
    "list events, oldest first; without an ID those of the whole workspace",
    WORKFLOW,
    option("--limit", "N", "only the newest N", kind="count"),
    flag("--follow", "go on with new events until Ctrl-C (JSON: one event a line)"),
    examples=("holdfast log --limit 20", "holdfast log dev-1f2e3d4c --follow"),
)
def log(keeper: Keeper, args: Arguments) -> Answer:
    events = keeper.events(workflow=args["workflow"], limit=args["limit"])
    if not args["follow"]:
        return EventLog(events)

    def followed() -> Iterator[Event]:
        seq = 0
        for event in events:
            seq = event["seq"]
            yield event
        yield from keeper.follow(workflow=args["workflow"], after=seq)

    return Stream(followed(), _event_line)


class EventLog(Answer):
    """Events that are printed while the ledger is read, so ``ok`` comes last in the JSON."""

    def __init__(self, events: Iterable[Event]) -> None:
        super().__init__(lambda: {"events": list(events)}, lambda screen: _lines(screen, events))
        self._events = events

    def json_pieces(self, *, ascii_only: bool) -> Iterator[str]:
        """Yield the object event by event. A fault on the way ends it as a failed answer."""
        yield '{"events":['
        separator = ""
        end: Fields = {"ok": True}
        try:
            for event in self._events:
                yield f"{separator}{encode(event, ascii_only=ascii_only)}"
                separator = ","
        except HoldfastError as error:
            self.code = _FAULT
            end = {"ok": False, "error": failure_fields(error)}
        yield f"],{encode(end, ascii_only=ascii_only)[1:]}\n"


def _lines(screen: Screen, events: Iterable[Event]) -> Iterator[str]:
    """Yield a line for each event. The first ones decide how wide the column of streams is."""
    coming = iter(events)
    first = list(islice(coming, _FIRST_EVENTS))
    width = max([cells(clean(event["stream"])) for event in first], default=0)
    for event in chain(first, coming):
        yield _event_line(screen, event, min(width, _STREAM_MAX))


def _event_line(screen: Screen, event: Event, stream_width: int = 0) -> str:
    """``12  2026-01-02 03:04:05Z  dev-1f2e3d4c  task_completed  task=3``."""
    seq = screen.paint(f"{event['seq']:>5}", "dim")
    at = clean(event["at"])[:19].replace("T", " ") + "Z"
    stream = padded(clean(event["stream"]), stream_width)
    kind = padded(clean(event["type"]), _TYPE_COLUMNS)
    taken = 5 + cells(at) + cells(stream) + cells(kind) + 4 * len(_GAP)
    about = screen.fitted(event_text(event), taken)
    parts = [seq, screen.paint(at, "dim"), stream, screen.paint(kind, "active"), about]
    return _GAP.join(parts).rstrip()


def event_text(event: Event) -> str:
    """Return what an event says, in a few clean words."""
    return clean(" ".join(pairs(_summary_fields(event["data"]))))


def _summary_fields(data: Fields) -> Fields:
    """Return what people want to know of an event; the JSON has all of it."""
    shown: Fields = {}
    for name, value in data.items():
        if name in ("fields", "values", "tests") and isinstance(value, dict):
            shown.update(value)
        elif name in _SUMMARIES and value:
            shown |= _summary(name, value)
        elif value not in (None, "", [], {}):
            shown[name] = value
    if "recipe" in data:
        shown = {name: value for name, value in shown.items() if name not in _NOT_SHOWN_OF_START}
        if shown.get("subject") == shown.get("title"):
            shown.pop("subject", None)
    return shown


def _summary(name: str, value: Json) -> Fields:
    """Return a large value in a few words, or as it is if it has another form than expected."""
    try:
        return _SUMMARIES[name](value)
    except (LookupError, TypeError, AttributeError):
        return {name: value}


def _state(state: Json) -> Fields:
    """Return a workflow, one initiative or all of them, in a few words."""
    if "all" in state:
        return {"initiatives": ", ".join(state["all"]), "current": state["current"]}
    if "milestones" in state:
        return {"status": state["status"], "milestone": state["current_milestone"]}
    return {"recipe": state["recipe"]["name"], "title": state["title"]}


def _edited(changes: list[Json]) -> Fields:
    return {"changed": ", ".join([path_text(change[0]) for change in changes])}


_SUMMARIES: dict[str, Callable[[Json], Fields]] = {
    "recipe": lambda recipe: {"recipe": recipe["name"]},
    "state": _state,
    "session": lambda held: {"session": held["id"] if isinstance(held, dict) else held},
    "commit": lambda commit: {"commit": str(commit)[:_COMMIT_CHARS]},
    "changes": _edited,
}

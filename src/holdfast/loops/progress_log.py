"""``progress.md``: one entry per event, only ever appended to.

An entry is a heading, ``T1 - Iteration 1 - 2026-01-14T10:30:00.000Z``, and bold keys below it. What
people write between entries stays; what they write into one is noticed, and stays as well.
"""

from __future__ import annotations

import re
from itertools import pairwise

from holdfast.layers.markdown import closing_mark, newline_of, outline, split_lines
from holdfast.loops import markdown_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Event, Fields, Json
    from holdfast.layers.markdown import Block

HEADER = "# Progress Log\n"
CLEAN = {"confirmation_recorded": "Clean", "verification_recorded": "Passed"}
NOT_CLEAN = "Issues found"
NOTHING = "None"

_OF_UNITS = {
    "iteration_recorded": "Iteration",
    "task_timed_out": "Timeout",
    "confirmation_recorded": "Confirmation",
    "verification_recorded": "Verification",
    "task_blocked": "Blocked",
    "task_unblocked": "Unblocked",
    "task_extended": "Extended",
    "task_started": "Started",
}
_OF_LOOPS = {
    "workflow_completed": "Completed",
    "workflow_abandoned": "Abandoned",
    "workflow_archived": "Archived",
    "loop_rebuilt": "Rebuilt",
}
KINDS = {word.lower(): kind for kind, word in (_OF_UNITS | _OF_LOOPS).items()}
"""The event that an entry of this kind tells of."""

_HEADING = re.compile(
    rf"(?:(?P<task>\S+) - )?(?P<kind>{'|'.join((_OF_UNITS | _OF_LOOPS).values())})"
    r"(?: (?P<number>[0-9]{1,9}))? - (?P<at>\S.*)"
)
_KEY = re.compile(r"\*\*([A-Z][A-Za-z ]{0,30}):\*\*(?:\s+(.*))?")
_MAY_BE_NOTHING = ("remaining", "blockers")


class Entry:
    """An entry as it stands in the log; ``fields`` are its bold keys, in lower case."""

    __slots__ = ("at", "fields", "heading", "kind", "line", "number", "raw", "task")

    def __init__(self, match: re.Match[str], line: int, raw: str, fields: Fields) -> None:
        self.heading = match.group()
        self.kind = match["kind"].lower()
        self.task = None if match["task"] is None else markdown_text.decoded(match["task"])
        self.number = None if match["number"] is None else int(match["number"])
        self.at = markdown_text.decoded(match["at"])
        self.line = line
        """Of its heading, counted from 1."""
        self.raw = raw
        self.fields = fields


def entry(event: Event) -> str | None:
    """What an event adds to the log; ``None`` for events that are not told there."""
    heading = _heading(event)
    if heading is None:
        return None
    lines = [
        f"**{key}:** {markdown_text.after_key(str(value), 2)}".rstrip()
        for key, value in _fields(event["type"], event["data"]).items()
        if value is not None
    ]
    return "\n".join([f"## {heading}", *lines]) + "\n"


def _heading(event: Event) -> str | None:
    kind, data, at = event["type"], event["data"], markdown_text.heading(str(event["at"]))
    if kind in _OF_LOOPS:
        heading = f"{_OF_LOOPS[kind]} - {at}"
    elif kind in _OF_UNITS and data.get("task") is not None:
        # A unit that came from elsewhere may be called anything; here it has to be one word.
        task = markdown_text.one_line(str(data["task"])).replace(" ", "&#32;")
        number = f" {data.get('iteration')}" if kind == "iteration_recorded" else ""
        heading = f"{task} - {_OF_UNITS[kind]}{number} - {at}"
    else:
        return None
    # What cannot be found again must not be written: it would be, with every command.
    return heading if _HEADING.fullmatch(heading) else None


def _fields(kind: str, data: Fields) -> dict[str, Json]:
    """The bold keys of an entry; those whose value is ``None`` are left out."""
    if kind in ("iteration_recorded", "task_timed_out"):
        return {
            "Did": data.get("did"),
            "Remaining": data.get("remaining") or NOTHING,
            "Blockers": data.get("blockers") or NOTHING,
            "Signal": data.get("signal"),
            "Commit": data.get("commit"),
        }
    if kind in CLEAN:
        evidence: Json = data.get("evidence")
        run = evidence if isinstance(evidence, dict) else {}
        return {
            "Result": CLEAN[kind] if data.get("clean") else NOT_CLEAN,
            "Found": data.get("found"),
            "Command": run.get("command"),
            "Exit code": run.get("exit_code"),
        }
    if kind == "task_extended":
        return {"Max iterations": data.get("max_iterations")}
    if kind == "loop_rebuilt":
        return {"Found": "\n".join(map(str, data.get("found") or [])) or NOTHING}
    return {
        "Outcome": data.get("outcome"),
        "Reason": data.get("reason"),
        "Record": data.get("record"),
    }


def read(text: str) -> list[Entry]:
    """The entries of a log. What is in code, in a quote or in a comment is not one."""
    lines = split_lines(text)
    blocks = outline(text)
    places = [place for place, one in enumerate(blocks) if one.kind == "heading"]
    heads = [place for place in places if blocks[place].depth <= 2]
    found: list[Entry] = []
    for head, following in zip(heads, [*heads, len(blocks)][1:], strict=True):
        match = _HEADING.fullmatch(blocks[head].text)
        if match is None or blocks[head].depth != 2:
            continue
        first = blocks[head].first
        end = blocks[following].first if following < len(blocks) else len(lines)
        fields = _read_fields(lines, blocks[head + 1 : following])
        found.append(Entry(match, first + 1, "".join(lines[first:end]), fields))
    return found


def settled(found: list[Entry]) -> list[Entry]:
    """The entries without those that were cut off and then written again."""
    kept = [one for one, after in pairwise(found) if not _is_cut(one, after.raw)]
    return [*kept, *found[-1:]]


def _read_fields(lines: list[str], blocks: list[Block]) -> Fields:
    """The bold keys up to the next heading of any kind; of two alike, the first."""
    parts: dict[str, list[str]] = {}
    for block in blocks:
        if block.kind == "heading":
            break
        if block.kind == "paragraph":
            for key, value in _keyed(lines[block.first : block.end]):
                parts.setdefault(key, value)
    return {key: _value(key, value) for key, value in parts.items()}


def _keyed(lines: list[str]) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        match = _KEY.fullmatch(line.strip())
        if match:
            found.append((match[1].lower().replace(" ", "_"), [match[2] or ""]))
        elif found:
            found[-1][1].append(line)
    return found


def _value(key: str, lines: list[str]) -> str | None:
    value = markdown_text.plain(lines)
    return None if key in _MAY_BE_NOTHING and value == NOTHING else value


class Comparison:
    """A log beside the events that it should tell of."""

    def __init__(self, text: str, events: list[Event]) -> None:
        told = [(event, whole) for event in events if (whole := entry(event)) is not None]
        self._text = text
        self._told = told
        wholes = [whole for _, whole in told]
        count = _count_written(text, wholes)
        self._is_own = count is not None
        """True if the log is as Holdfast wrote it, so that no parser is needed."""
        self.missing, self.changed = (
            _compared(text, told) if count is None else (wholes[count:], [])
        )
        """Entries that the log lacks, and the headings of those that say something else by now."""

    def addition(self) -> str:
        """What has to be appended so that every event has its entry."""
        if not self.missing:
            return ""
        if not self._text.strip():
            gap = f"{HEADER}\n"
        else:
            left_open = "" if self._is_own else closing_mark(self._text, nested=False)
            gap = "\n" if self._text.endswith(("\r", "\n")) else "\n\n"
            gap += f"{left_open}\n\n" if left_open else ""
        return self._in_lines(gap + "\n".join(self.missing))

    def last(self) -> str:
        """The last entry of the addition."""
        return self._in_lines(self.missing[-1])

    def _in_lines(self, text: str) -> str:
        return text.replace("\n", newline_of(split_lines(self._text)))

    def removed(self) -> list[str]:
        """The headings of entries that are gone, though later ones stand there."""
        lacking = set(self.missing)
        places = [place for place, (_, whole) in enumerate(self._told) if whole not in lacking]
        earlier = self._told[: max(places, default=0)]
        return [_title(whole) for _, whole in earlier if whole in lacking]

    def newest_missing(self) -> Event | None:
        """The last event of all, if its entry is among those that the log lacks."""
        is_missing = bool(self.missing) and self._told[-1][1] == self.missing[-1]
        return self._told[-1][0] if is_missing else None


def _count_written(text: str, wholes: list[str]) -> int | None:
    """Return how many entries a log has that is as it was written; ``None`` if it is not."""
    place = len(HEADER) if text.startswith(HEADER) else 0
    count = 0
    for whole in wholes:
        written = f"\n{whole}" if place else whole
        if not text.startswith(written, place):
            break
        place += len(written)
        count += 1
    return count if place == len(text) else None


def _title(whole: str) -> str:
    return whole.removeprefix("## ").partition("\n")[0].strip()


def _compared(text: str, told: list[tuple[Event, str]]) -> tuple[list[str], list[str]]:
    """The entries that the log lacks, and the headings of those it tells otherwise."""
    found = settled(read(text))
    standing: dict[str, list[Entry]] = {}
    for one in found:
        standing.setdefault(one.heading, []).append(one)
    unmatched: list[tuple[str, str]] = []
    for _, whole in told:
        heading, _, body = whole.removeprefix("## ").partition("\n")
        alike = standing.get(heading.strip(), [])
        same = next((one for one in alike if _says(one, body)), None)
        if same is None:
            unmatched.append((heading.strip(), whole))
        else:
            alike.remove(same)
    wanted: list[str] = []
    altered: list[str] = []
    for heading, whole in unmatched:
        alike = standing.get(heading, [])
        if not alike or (alike[0] is found[-1] and _is_cut(alike[0], whole)):
            wanted.append(whole)
        else:
            altered.append(heading)
            alike.pop(0)
    return wanted, altered


def _says(one: Entry, body: str) -> bool:
    """Whether an entry has the keys and the values that were written, whatever stands beside."""
    written = {key: _value(key, value) for key, value in _keyed(body.split("\n")[:-1])}
    return {key: one.fields[key] for key in one.fields if key in _KNOWN} == written


_KNOWN = (
    "did", "remaining", "blockers", "signal", "commit", "result", "found", "command", "exit_code",
    "max_iterations", "outcome", "reason", "record",
)  # fmt: skip


def _is_cut(one: Entry, whole: str) -> bool:
    """Whether an entry is the beginning of the whole one, and not more."""
    begun = one.raw.replace("\r\n", "\n").rstrip("\n\ufffd")
    expected = whole.replace("\r\n", "\n").rstrip("\n")
    return len(begun) < len(expected) and expected.startswith(begun)

"""``progress.md``: one entry per event, only ever appended to.

An entry is a heading, ``T1 - Iteration 1 - 2026-01-14T10:30:00.000Z``, and bold keys below it. Text
that people write between entries stays. A change inside an entry is reported, and stays too. An
iteration that people write at the end is taken in: its event has the heading as ``logged``, and the
entry is theirs.
"""

from __future__ import annotations

import re
from itertools import pairwise, takewhile

from holdfast.layers.markdown import closing_mark, newline_of, outline, split_lines
from holdfast.loops import pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Event, Fields, Json

HEADER = "# Progress Log\n"
CLEAN = {"confirmation_recorded": "Clean", "verification_recorded": "Passed"}
NOT_CLEAN = "Issues found"
NONE = "None"

_UNIT_EVENTS = {
    "iteration_recorded": "Iteration",
    "task_timed_out": "Timeout",
    "confirmation_recorded": "Confirmation",
    "verification_recorded": "Verification",
    "task_blocked": "Blocked",
    "task_unblocked": "Unblocked",
    "task_extended": "Extended",
    "task_started": "Started",
}
_LOOP_EVENTS = {
    "workflow_completed": "Completed",
    "workflow_abandoned": "Abandoned",
    "workflow_archived": "Archived",
    "loop_rebuilt": "Rebuilt",
}
EVENT_TYPES = {word.lower(): kind for kind, word in (_UNIT_EVENTS | _LOOP_EVENTS).items()}
"""The event type of each kind of entry."""

_HEADING = re.compile(
    rf"(?:(?P<task>\S+) - )?(?P<kind>{'|'.join((_UNIT_EVENTS | _LOOP_EVENTS).values())})"
    r"(?: (?P<number>[0-9]{1,9}))? - (?P<at>\S.*)"
)
_KEY = re.compile(r"\*\*([A-Z][A-Za-z ]{0,30}):\*\*(?:\s+(.*))?")
_MAY_BE_NONE = ("remaining", "blockers")
_FIELDS = (
    "did", "remaining", "blockers", "signal", "commit", "result", "found", "command", "exit_code",
    "max_iterations", "outcome", "reason", "record",
)  # fmt: skip


class LogEntry:
    """An entry as it is in the log; ``fields`` are its bold keys, in lower case."""

    __slots__ = ("at", "fields", "heading", "kind", "line", "number", "raw", "task")

    def __init__(self, match: re.Match[str], line: int, raw: str, fields: Fields) -> None:
        self.heading = match.group()
        self.kind = match["kind"].lower()
        self.task = None if match["task"] is None else pages.decode_line(match["task"])
        self.number = None if match["number"] is None else int(match["number"])
        self.at = pages.decode_line(match["at"])
        self.line = line
        """The line of its heading, counted from 1."""
        self.raw = raw
        self.fields = fields


# Writing


def render_entry(event: Event) -> str | None:
    """Return the entry of an event; ``None`` if the log has no entry for such events."""
    kind, data, at = event["type"], event["data"], pages.encode_heading(str(event["at"]))
    if kind in _LOOP_EVENTS:
        heading = f"{_LOOP_EVENTS[kind]} - {at}"
    elif kind in _UNIT_EVENTS and data.get("task") is not None:
        # The id of a unit of foreign origin may hold anything; here it has to be one word.
        task = pages.encode_line(str(data["task"])).replace(" ", "&#32;")
        number = f" {data.get('iteration')}" if kind == "iteration_recorded" else ""
        heading = str(data.get("logged") or f"{task} - {_UNIT_EVENTS[kind]}{number} - {at}")
    else:
        return None
    if not _HEADING.fullmatch(heading):
        # An entry that cannot be read again would be appended by every command.
        return None
    lines = [
        f"**{key}:** {pages.encode_after_key(str(value), 2)}".rstrip()
        for key, value in _entry_fields(kind, data).items()
        if value is not None
    ]
    return "\n".join([f"## {heading}", *lines]) + "\n"


def _entry_fields(kind: str, data: Fields) -> dict[str, Json]:
    """Return the bold keys of an entry; those with the value ``None`` are not written."""
    if kind in ("iteration_recorded", "task_timed_out"):
        return {
            "Did": data.get("did"),
            "Remaining": data.get("remaining") or NONE,
            "Blockers": data.get("blockers") or NONE,
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
        return {"Found": "\n".join(map(str, data.get("found") or [])) or NONE}
    return {
        "Outcome": data.get("outcome"),
        "Reason": data.get("reason"),
        "Record": data.get("record"),
    }


# Reading


def read_entries(text: str) -> list[LogEntry]:
    """Return the entries of a log. Headings in code, quotes and comments do not count."""
    lines = split_lines(text)
    entries: list[LogEntry] = []
    for heading, end, blocks in pages.sections_of(outline(text), len(lines)):
        match = _HEADING.fullmatch(heading.text)
        if match is None:
            continue
        fields: Fields = {}
        for block in takewhile(lambda block: block.kind != "heading", blocks):
            if block.kind == "paragraph":
                fields = {**_parse_keys(lines[block.first : block.end]), **fields}
        raw = "".join(lines[heading.first : end])
        entries.append(LogEntry(match, heading.first + 1, raw, fields))
    return entries


def without_cut_entries(entries: list[LogEntry]) -> list[LogEntry]:
    """Return the entries without those that a killed writer cut off and the next wrote again."""
    whole = [entry for entry, after in pairwise(entries) if not _is_cut(entry, after.raw)]
    return [*whole, *entries[-1:]]


def _parse_keys(lines: list[str]) -> Fields:
    """Return the bold keys of a paragraph; of two with one name, the first."""
    values: dict[str, list[str]] = {}
    value: list[str] = []
    for line in lines:
        match = _KEY.fullmatch(line.strip())
        if match:
            value = [match[2] or ""]
            values.setdefault(match[1].lower().replace(" ", "_"), value)
        else:
            value.append(line)
    fields: Fields = {key: pages.decode_after_key(value) for key, value in values.items()}
    for key in _MAY_BE_NONE:
        if fields.get(key) == NONE:
            fields[key] = None
    return fields


# Comparing


class LogComparison:
    """A log compared with the events whose entries it should have."""

    def __init__(
        self,
        text: str,
        events: list[Event],
        read: Callable[[str], list[LogEntry]] | None = None,
    ) -> None:
        """Compare; ``read`` returns the entries of a text, by default it is ``read_entries``."""
        self._text = text
        self._expected = [(event, entry) for event in events if (entry := render_entry(event))]
        entries = [entry for _, entry in self._expected]
        count = _count_unedited(text, entries)
        self._is_edited = count is None
        """False if the log is as Holdfast wrote it, so that no parser is needed."""
        own_headings = {str(event["data"].get("logged")) for event, _ in self._expected}
        self.missing, self.changed, self.extra = (
            _compare(text, entries, own_headings, read or read_entries)
            if count is None
            else (entries[count:], [], [])
        )
        """Entries that the log lacks, headings of those that were changed, and entries below the
        last one that belongs to an event."""
        self.has_entries = count != 0 and len(self.missing) < len(entries)
        """True if the log has the entry of one of the events."""

    def addition(self) -> str:
        """Return the text to append, so that every event has its entry."""
        if not self.missing:
            return ""
        if not self._text.strip():
            gap = f"{HEADER}\n"
        else:
            mark = closing_mark(self._text, nested=False) if self._is_edited else ""
            gap = "\n" if self._text.endswith(("\r", "\n")) else "\n\n"
            gap += f"{mark}\n\n" if mark else ""
        return self._with_newlines(gap + "\n".join(self.missing))

    def _with_newlines(self, text: str) -> str:
        return text.replace("\n", newline_of(split_lines(self._text)))

    def removed(self) -> list[str]:
        """Return the headings of missing entries before one that the log has."""
        missing = set(self.missing)
        present = [index for index, (_, entry) in enumerate(self._expected) if entry not in missing]
        earlier = self._expected[: max(present, default=0)]
        return [_split_entry(entry)[0] for _, entry in earlier if entry in missing]

    def newest_missing(self) -> tuple[Event, str] | None:
        """Return the last event and the end of the addition, if that is its entry."""
        if not self.missing or self._expected[-1][1] != self.missing[-1]:
            return None
        return self._expected[-1][0], self._with_newlines(self.missing[-1])


def _count_unedited(text: str, entries: list[str]) -> int | None:
    """Return how many entries a log has if it is as Holdfast wrote it; ``None`` if it is not."""
    position = len(HEADER) if text.startswith(HEADER) else 0
    count = 0
    for entry in entries:
        expected = f"\n{entry}" if position else entry
        if not text.startswith(expected, position):
            break
        position += len(expected)
        count += 1
    return count if position == len(text) else None


def _split_entry(entry: str) -> tuple[str, str]:
    """Return the heading and the body of a rendered entry."""
    heading, _, body = entry.removeprefix("## ").partition("\n")
    return heading.strip(), body


def _compare(
    text: str, expected: list[str], own_headings: set[str], read: Callable[[str], list[LogEntry]]
) -> tuple[list[str], list[str], list[LogEntry]]:
    """Return the entries that the log lacks, the headings of those that were changed, and others.

    The entries with ``own_headings`` are people's: whatever they say below it is right.
    """
    in_log = without_cut_entries(read(text))
    by_heading: dict[str, list[LogEntry]] = {}
    for entry in in_log:
        by_heading.setdefault(entry.heading, []).append(entry)
    unmatched: list[tuple[str, str]] = []
    for rendered in expected:
        heading, body = _split_entry(rendered)
        fields = _parse_keys(body.split("\n")[:-1])
        candidates = by_heading.get(heading, [])
        for entry in candidates:
            # Other text in the entry does not count.
            said = {key: entry.fields[key] for key in entry.fields if key in _FIELDS}
            if said == fields or heading in own_headings:
                candidates.remove(entry)
                break
        else:
            unmatched.append((heading, rendered))
    missing: list[str] = []
    changed: list[str] = []
    for heading, rendered in unmatched:
        candidates = by_heading.get(heading, [])
        if not candidates or (candidates[0] is in_log[-1] and _is_cut(candidates[0], rendered)):
            missing.append(rendered)
        else:
            changed.append(heading)
            candidates.pop(0)
    left = [entry for candidates in by_heading.values() for entry in candidates]
    last = max([entry.line for entry in in_log if entry not in left], default=0)
    extra = [
        entry
        for entry in in_log
        if entry in left
        and entry.line > last
        and not any(_is_cut(entry, rendered) for rendered in missing)
    ]
    return missing, changed, extra


def _is_cut(entry: LogEntry, whole: str) -> bool:
    """Return whether an entry is a proper beginning of the whole one."""
    start = entry.raw.replace("\r\n", "\n").rstrip("\n\ufffd")
    expected = whole.replace("\r\n", "\n").rstrip("\n")
    return len(start) < len(expected) and expected.startswith(start)

"""``WORKFLOW-STATUS.yaml`` as a text: what it says, and the same text with other values in it.

The parser tells where each value stands; only those characters are replaced. Comments, order, line
ends, quotes and keys that Holdfast does not know are somebody's, and stay.
"""

from __future__ import annotations

import re

from holdfast.core import json_text
from holdfast.core.source_of_truth import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

    Pairs = dict[str, tuple[Node, Node]]

NAME = "WORKFLOW-STATUS.yaml"
KEYS = ("initiative", "milestone", "status", "updated")
PROGRESS = "progress"
MOST_BYTES = 64 * 1024
MOST_DEEP = 20
_MOST_OPEN = 2 * MOST_DEEP
"""Brackets without an end: the parser would take minutes to find that they have none."""
_BOM = "\ufeff"
_BREAK = re.compile(r"\r\n|\r|\n")
_BRACKET = re.compile(r"[\[\]{}]")
_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
_HEAD = "# Where this initiative stands. Holdfast keeps it in step with .claude/initiative.json.\n"


class BadStatus(Exception):
    """A text that cannot be used: ``line`` is where, ``why`` is what is wrong there."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class Status:
    """One text, parsed. ``BadStatus`` when it is none."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) > MOST_BYTES:
            raise BadStatus(1, f"it has {len(raw):,} bytes, {MOST_BYTES:,} are the most")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise BadStatus(line, "it is not UTF-8") from None
        self._bom = _BOM if text.startswith(_BOM) else ""
        self.text = text.removeprefix(_BOM)
        ending = _BREAK.search(self.text)
        self._newline = ending[0] if ending else "\n"
        _check_brackets(self.text)
        self._root = _composed(self.text)
        self._pairs: Pairs = {} if self._root is None else _pairs(self._root)
        self.progress = self._progress()
        told = {key: self._value(key) for key in KEYS}
        self.initiative = told["initiative"]
        self.milestone, self.status, self.updated = (told[key] for key in KEYS[1:])

    def source(self, name: str, place: str, initiative: str | None = None) -> Source:
        told = (self.updated, self.milestone, self.status, self.progress)
        return Source(name, *told, place, initiative)

    def line_of(self, *keys: str) -> int:
        """Where a value stands, for people."""
        pair = self._pairs.get(keys[0])
        if pair is None:
            return 1
        below = _pairs(pair[1]) if len(keys) > 1 and _is_map(pair[1]) else {}  # type: ignore[arg-type]
        found = below.get(keys[1], pair) if len(keys) > 1 else pair
        return int(found[0].start_mark.line) + 1

    def _value(self, key: str) -> str | None:
        pair = self._pairs.get(key)
        return None if pair is None else _scalar(pair[1], key)

    def _progress(self) -> dict[str, str]:
        pair = self._pairs.get(PROGRESS)
        if pair is None or _is_empty(pair[1]):
            return {}
        if not _is_map(pair[1]):
            raise BadStatus(pair[1].start_mark.line + 1, f"{PROGRESS} must be a map")
        found = {}
        for key, (_, value) in _pairs(pair[1]).items():  # type: ignore[arg-type]
            said = _scalar(value, f"{PROGRESS}.{key}")
            if said is not None:
                found[key] = said
        return found

    # Writing

    def with_values(self, values: dict[str, str], progress: dict[str, str]) -> bytes:
        """The text with these values in it."""
        changes: list[tuple[int, int, str]] = []
        missing = []
        for key, value in values.items():
            pair = self._pairs.get(key)
            if pair is None:
                missing.append(f"{key}: {_shown(value)}")
            elif _scalar(pair[1], key) != value:
                changes.append(self._in_place(*pair, value))
        pair = self._pairs.get(PROGRESS)
        # Rows of the initiative that it spoke of before are not this one's milestones.
        strange = self.initiative not in (None, values.get("initiative"))
        if pair is None:
            missing += [f"{PROGRESS}:", *_rows(progress, "  ")]
        else:
            changes += self._progress_changes(pair, progress, is_kept=not strange)
        if missing:
            changes.append(self._at_the_end(missing))
        text = self.text
        # From below; of two at the same place the one that was added last comes behind the other.
        placed = sorted(enumerate(changes), key=lambda one: (one[1][0], one[0]), reverse=True)
        for _, (start, end, new) in placed:
            text = text[:start] + new + text[end:]
        after = (self._bom + text).encode()
        _check_written(after, values, progress)
        return after

    def _in_place(self, key: Node, node: Node, value: str) -> tuple[int, int, str]:
        start, end = _span(node)
        if start == end:
            colon = self._behind_colon(key)
            return colon, colon, f" {_shown(value)}"
        style = getattr(node, "style", None)
        new = _shown(value)
        if style == "'" and not new.startswith('"'):
            new = f"'{new}'"
        elif style == '"':
            new = json_text.dumps(value)
        return start, end, new

    def _behind_colon(self, key: Node) -> int:
        """Where a value belongs that is not there: the parser puts it anywhere below."""
        return self.text.index(":", key.end_mark.index) + 1

    def _progress_changes(
        self, pair: tuple[Node, Node], progress: dict[str, str], *, is_kept: bool
    ) -> Iterator[tuple[int, int, str]]:
        key, node = pair
        if _is_empty(node):
            colon = self._behind_colon(key)
            rows = "".join([f"{self._newline}{row}" for row in _rows(progress, "  ")])
            start, end = _span(node)
            yield colon, max(colon, end if end > start else colon), rows
            return
        there = _pairs(node)  # type: ignore[arg-type]
        if not is_kept and getattr(node, "flow_style", False):
            yield *_span(node), "{" + ", ".join(_rows(progress, "")) + "}"
            return
        gone = [] if is_kept else [name for name in there if name not in progress]
        for name in gone:
            row = there.pop(name)
            start = _span(row[0])[0] - int(row[0].start_mark.column)
            ending = _BREAK.search(self.text, _span(row[1])[1])
            yield start, ending.end() if ending else len(self.text), ""
        for name, value in progress.items():
            if name in there and _scalar(there[name][1], name) != value:
                yield self._in_place(*there[name], value)
        added = {name: value for name, value in progress.items() if name not in there}
        if added and getattr(node, "flow_style", False):
            end = node.end_mark.index - 1
            lead = ", " if there else ""
            yield end, end, lead + ", ".join(_rows(added, ""))
        elif added:
            last = next(reversed(there.values()), None)
            end = self._end_of_line(_span(last[1] if last else key)[1])
            margin = " " * (int(last[0].start_mark.column) if last else 2)
            yield end, end, "".join([f"{self._newline}{row}" for row in _rows(added, margin)])

    def _end_of_line(self, place: int) -> int:
        found = _BREAK.search(self.text, place)
        if found is None:
            return len(self.text)
        is_within = self.text[found.start() - 1 : found.end()] == "\r\n"
        return found.start() - is_within

    def _at_the_end(self, rows: list[str]) -> tuple[int, int, str]:
        """Behind the last of the document; what ends it, if anything does, stays behind."""
        if self._root is None:
            lead = "" if not self.text or self.text.endswith("\n") else self._newline
            place = len(self.text)
        else:
            values = [value for _, value in self._pairs.values()]
            end = max([_span(value)[1] for value in values], default=0)
            place = self._end_of_line(max(end - 1, 0)) if self._pairs else len(self.text)
            lead = self._newline
        body = self._newline.join(rows)
        return place, place, lead + body + ("" if self._root is not None else self._newline)


def _check_written(after: bytes, values: dict[str, str], progress: dict[str, str]) -> None:
    """A text that does not say what it was given is not written."""
    told = Status(after)
    said = {key: told._value(key) for key in values}  # noqa: SLF001 - the class's own check
    if said != values or any(told.progress.get(key) != progress[key] for key in progress):
        raise BadStatus(1, "its values cannot be replaced where they stand")


def fresh(values: dict[str, str], progress: dict[str, str]) -> bytes:
    """A new file."""
    rows = [f"{key}: {_shown(value)}" for key, value in values.items()]
    rows += [f"{PROGRESS}:", *_rows(progress, "  ")]
    return (_HEAD + "\n".join(rows) + "\n").encode()


def is_as_written(raw: bytes, values: dict[str, str], progress: dict[str, str]) -> bool:
    """Whether a file has these values in lines of ours: a look that needs no parser."""
    rows = [f"{key}: {_shown(value)}" for key, value in values.items()] + _rows(progress, "  ")
    lines = raw.decode(errors="replace").splitlines()
    return all(row in lines for row in rows)


def _rows(progress: dict[str, str], margin: str) -> list[str]:
    return [f"{margin}{_shown(key)}: {_shown(value)}" for key, value in progress.items()]


def _shown(value: str) -> str:
    """A value as YAML reads it back: plain where every reader takes it for text."""
    plain = value.replace("_", "").replace("-", "").replace(" ", "")
    words = value.split(" ")
    is_time = value[:4].isdecimal() and value[4:5] == "-" and value.endswith("Z")
    is_plain = (
        plain.isascii()
        and plain.isalnum()
        and value[:1].isalpha()
        and all(words)
        and value.lower() not in _WORDS
    )
    return value if is_plain or (is_time and value.isascii()) else json_text.dumps(value)


def _check_brackets(text: str) -> None:
    opened = 0
    for found in _BRACKET.finditer(text):
        opened = max(0, opened + (1 if found[0] in "[{" else -1))
        if opened > _MOST_OPEN:
            line = text.count("\n", 0, found.start()) + 1
            raise BadStatus(line, f"it is nested deeper than {MOST_DEEP} levels")


def _composed(text: str) -> MappingNode | None:
    """The one map of a text; ``None`` when it is empty."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        root = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = str(error.problem or error.context or "it cannot be read")
        raise BadStatus((mark.line if mark else 0) + 1, why) from None
    except (YAMLError, ValueError, RecursionError, AttributeError) as error:
        why = str(error).partition("\n")[0] or "it cannot be read"
        raise BadStatus(1, why) from None
    if root is None:
        return None
    if not _is_map(root):
        raise BadStatus(root.start_mark.line + 1, "the document must be a map, not a list or text")
    if root.flow_style:
        raise BadStatus(root.start_mark.line + 1, "its map must have a line for each key")
    _check(root, 0)
    found: MappingNode = root
    return found


def _check(node: Node, depth: int) -> None:
    """Refuses what cannot be patched in place, or means something else to every reader."""
    line = int(node.start_mark.line) + 1
    if node.anchor is not None:
        raise BadStatus(line, f"aliases are not read (&{node.anchor})")
    if depth > MOST_DEEP:
        raise BadStatus(line, f"it is nested deeper than {MOST_DEEP} levels")
    if _is_map(node):
        for key, value in _pairs(node).values():  # type: ignore[arg-type]
            _check(key, depth + 1)
            _check(value, depth + 1)
    elif isinstance(node.value, list):
        for item in node.value:
            _check(item, depth + 1)


def _is_map(node: Node) -> bool:
    return type(node).__name__ == "MappingNode"


def _is_empty(node: Node) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:null")


def _pairs(node: MappingNode) -> Pairs:
    found: Pairs = {}
    for key, value in node.value:
        line = int(key.start_mark.line) + 1
        if not isinstance(key.value, str):
            raise BadStatus(line, "a key must be text")
        if key.value in found:
            raise BadStatus(line, f"the key {key.value!r} stands twice")
        found[key.value] = (key, value)
    return found


def _scalar(node: Node, what: str) -> str | None:
    line = int(node.start_mark.line) + 1
    if _is_empty(node):
        return None
    if not isinstance(node.value, str) or node.start_mark.line != node.end_mark.line:
        raise BadStatus(line, f"{what} must be text on one line")
    return node.value.strip() or None


def _span(node: ScalarNode | Node) -> tuple[int, int]:
    return int(node.start_mark.index), int(node.end_mark.index)

"""Read and update ``WORKFLOW-STATUS.yaml``, a file that belongs to people too.

ruamel's round trip keeps comments, order, quotes and keys that Holdfast does not know. Every scalar
is loaded as text, so that a foreign number or date is written back as it was. The spacing inside a
changed file may be normalised; a file that already has the wanted values is returned unchanged.
"""

from __future__ import annotations

import re

from holdfast.core import json_text
from holdfast.core.initiative_sources import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap

NAME = "WORKFLOW-STATUS.yaml"
KEYS = ("initiative", "milestone", "status", "updated")
PROGRESS = "progress"
MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
_MAX_OPEN_BRACKETS = 2 * MAX_DEPTH
"""The parser would take minutes to find out that more brackets than this are never closed."""
_BOM = "\ufeff"
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_DOCUMENT = re.compile(
    r"((?:[ \t]*(?:[#%].*)?(?:\r\n|\r|\n))*---[ \t]*(?:#.*)?(?:\r\n|\r|\n))?"
    r"(.*?)((?:^\.\.\.|\Z)(?s:.*))",
    re.DOTALL | re.MULTILINE,
)
_BRACKET = re.compile(r"[\[\]{}]")
_NULLS = ("", "~", "null", "Null", "NULL")
_AMBIGUOUS_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
_HEADER = (
    "# Where this initiative stands. Holdfast keeps it in step with .claude/initiative.json.\n"
)


class BadStatus(Exception):
    """A file that cannot be used: ``line`` is the line, ``why`` the reason."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class Status:
    """A parsed file. The constructor raises ``BadStatus`` if the file cannot be used."""

    def __init__(self, raw: bytes) -> None:
        if len(raw) > MAX_BYTES:
            raise BadStatus(1, f"it has {len(raw):,} bytes, {MAX_BYTES:,} are the most")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise BadStatus(line, "it is not UTF-8") from None
        self._raw = raw
        self._text = text.removeprefix(_BOM)
        self._map = _load(self._text)
        self.initiative, self.milestone, self.status, self.updated = map(self._value, KEYS)
        self.progress = self._progress()

    def source(self, name: str, place: str, initiative: str | None = None) -> Source:
        """Return what the file says, for a comparison with other sources."""
        return Source(
            name, self.updated, self.milestone, self.status, self.progress, place, initiative
        )

    def line_of(self, key: str, row: str | None = None) -> int:
        """Return the line of a key, or of a row of ``progress``; 1 if the file has no such key."""
        if self._map is None or key not in self._map:
            return 1
        rows = _as_map(self._map[key])
        if row is not None and rows is not None and row in rows:
            return _line(rows, row)
        return _line(self._map, key)

    def _value(self, key: str) -> str | None:
        return None if self._map is None else _text_of(self._map, key, key)

    def _progress(self) -> dict[str, str]:
        value = None if self._map is None else self._map.get(PROGRESS)
        if _is_null(value):
            return {}
        rows = _as_map(value)
        if rows is None:
            raise BadStatus(self.line_of(PROGRESS), f"{PROGRESS} must be a map")
        values = {key: _text_of(rows, key, f"{PROGRESS}.{key}") for key in rows}
        return {key: value for key, value in values.items() if value is not None}

    def with_values(self, values: dict[str, str], progress: dict[str, str]) -> bytes:
        """Return the file with these values; raise ``BadStatus`` if it cannot hold them.

        Rows of ``progress`` that Holdfast does not know stay, unless the file described another
        initiative: then they were its milestones.
        """
        others = []
        if self.initiative not in (None, values.get("initiative")):
            others = [row for row in self.progress if row not in progress]
        is_current = all(self._value(key) == value for key, value in values.items())
        if is_current and not others and progress.items() <= self.progress.items():
            return self._raw
        newline = _LINE_BREAK.search(self._text)
        if self._map is None:
            gap = "\n" if self._text and not self._text.endswith(("\r", "\n")) else ""
            text = self._text + gap + "\n".join(_rows(values, progress)) + "\n"
        else:
            text = _with_values(self._text, values, progress, others)
        text = _LINE_BREAK.sub(newline[0] if newline else "\n", text)
        bom = _BOM if self._raw.startswith(_BOM.encode()) else ""
        after = (bom + text).encode()
        self._check_written(after, values, progress, others)
        return after

    def _check_written(
        self, after: bytes, values: dict[str, str], progress: dict[str, str], others: list[str]
    ) -> None:
        """Raise ``BadStatus`` if a written file lacks a value, a foreign key or a comment."""
        written = Status(after)
        kept = {row: value for row, value in self.progress.items() if row not in others}
        is_whole = (
            all(written._value(key) == value for key, value in values.items())
            and written.progress == {**kept, **progress}
            and set(self._map or ()) <= set(written._map or ())
            and _comments(self._text) <= _comments(written._text)
        )
        if not is_whole:
            raise BadStatus(1, "its values cannot be replaced where they stand")


def fresh(values: dict[str, str], progress: dict[str, str]) -> bytes:
    """Return a new file."""
    return (_HEADER + "\n".join(_rows(values, progress)) + "\n").encode()


def is_as_written(raw: bytes, values: dict[str, str], progress: dict[str, str]) -> bool:
    """Return whether a file has these values on lines that Holdfast wrote. Needs no parser."""
    lines = raw.decode(errors="replace").splitlines()
    return all(row in lines for row in _rows(values, progress) if row != f"{PROGRESS}:")


def _rows(values: dict[str, str], progress: dict[str, str]) -> list[str]:
    top = [f"{key}: {_quoted(value)}" for key, value in values.items()]
    below = [f"  {_quoted(key)}: {_quoted(value)}" for key, value in progress.items()]
    return [*top, f"{PROGRESS}:", *below]


def _quoted(value: str) -> str:
    """Return a value without quotes if every YAML reader takes it for text (or for a time)."""
    compact = value.replace("_", "").replace("-", "").replace(" ", "")
    is_time = value[:4].isdecimal() and value[4:5] == "-" and value.endswith("Z")
    is_plain = (
        compact.isascii()
        and compact.isalnum()
        and value[:1].isalpha()
        and all(value.split(" "))
        and value.lower() not in _AMBIGUOUS_WORDS
    )
    return value if is_plain or (is_time and value.isascii()) else json_text.dumps(value)


# The YAML parser is imported below this line only, when a file was not written by Holdfast.


def _load(text: str) -> CommentedMap | None:
    """Return the map of a text, ``None`` for an empty one; raise ``BadStatus`` for any other."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    _check_brackets(text)
    try:
        _check_events(text)
        root = _yaml().load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = str(error.problem or error.context or "it cannot be read")
        raise BadStatus((mark.line if mark else 0) + 1, why) from None
    except (YAMLError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError,
            TypeError, ValueError) as error:  # fmt: skip
        why = str(error).partition("\n")[0] or "it cannot be read"
        raise BadStatus(1, why) from None
    if root is None or root == "":
        return None
    line = int(root.lc.line) + 1 if hasattr(root, "lc") else 1
    loaded = _as_map(root)
    if loaded is None:
        raise BadStatus(line, "the document must be a map, not a list or text")
    if loaded.fa.flow_style():
        raise BadStatus(line, "its map must have a line for each key")
    if not all(isinstance(key, str) for key in loaded):
        raise BadStatus(line, "a key must be text")
    return loaded


def _yaml() -> YAML:
    """Return a round-trip parser that takes every scalar for text."""
    from types import MappingProxyType

    from ruamel.yaml import YAML
    from ruamel.yaml.resolver import VersionedResolver

    class TextResolver(VersionedResolver):
        versioned_resolver = MappingProxyType[str, list[object]]({})

    yaml = YAML(typ="rt", pure=True)
    yaml.Resolver = TextResolver
    yaml.preserve_quotes = True
    yaml.width = 2 * MAX_BYTES
    return yaml


def _check_brackets(text: str) -> None:
    count = 0
    for bracket in _BRACKET.finditer(text):
        count = max(0, count + (1 if bracket[0] in "[{" else -1))
        if count > _MAX_OPEN_BRACKETS:
            line = text.count("\n", 0, bracket.start()) + 1
            raise BadStatus(line, f"it is nested deeper than {MAX_DEPTH} levels")


def _check_events(text: str) -> None:
    """Raise ``BadStatus`` for aliases, which a change would break, and for deep nesting."""
    depth = 0
    for event in _yaml().parse(text):
        line = int(event.start_mark.line) + 1
        if getattr(event, "anchor", None) is not None:
            raise BadStatus(line, f"aliases are not read (&{event.anchor})")
        kind = type(event).__name__
        depth += kind in ("MappingStartEvent", "SequenceStartEvent")
        depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
        if depth > MAX_DEPTH:
            raise BadStatus(line, f"it is nested deeper than {MAX_DEPTH} levels")


def _as_map(value: Any) -> CommentedMap | None:
    return value if isinstance(value, dict) else None  # type: ignore[return-value]


def _is_null(value: object) -> bool:
    """Return whether a value is missing; with quotes, the same words are text."""
    return value is None or (type(value) is str and value in _NULLS)


def _line(rows: CommentedMap, key: str) -> int:
    return int(rows.lc.key(key)[0]) + 1


def _text_of(rows: CommentedMap, key: str, name: str) -> str | None:
    """Return a value, ``None`` where there is none; raise ``BadStatus`` if it is not one line."""
    value = rows.get(key)
    value = getattr(value, "value", value)  # of a scalar with a tag
    if _is_null(value):
        return None
    if not isinstance(value, str) or _LINE_BREAK.search(value.strip()):
        raise BadStatus(_line(rows, key), f"{name} must be text on one line")
    return value.strip() or None


def _with_values(
    text: str, values: dict[str, str], progress: dict[str, str], others: list[str]
) -> str:
    """Return the text of a map with these values, without the rows ``others`` of ``progress``."""
    from io import StringIO

    from ruamel.yaml.comments import CommentedMap

    document = _DOCUMENT.fullmatch(text)
    head, body, tail = document.groups("") if document else ("", text, "")
    yaml = _yaml()
    root = yaml.load(body)
    for key, value in values.items():
        _put(root, key, value)
    rows = root.get(PROGRESS)
    if not isinstance(rows, dict):
        rows = root[PROGRESS] = CommentedMap()
    for key, value in progress.items():
        _put(rows, key, value)
    for key in others:
        _remove(rows, key)
    out = StringIO()
    yaml.dump(root, out)
    return head + out.getvalue() + tail


def _put(rows: CommentedMap, key: str, value: str) -> None:
    """Set a value; keep the quotes that the old one had."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

    before = rows.get(key)
    if isinstance(before, str) and before.strip() == value:
        return
    if isinstance(before, SingleQuotedScalarString | DoubleQuotedScalarString):
        rows[key] = type(before)(value)
    else:
        rows[key] = value if _quoted(value) == value else DoubleQuotedScalarString(value)


def _remove(rows: CommentedMap, key: str) -> None:
    """Remove a row; move its comments to the row before it, for the first row to the last."""
    from ruamel.yaml.error import CommentMark
    from ruamel.yaml.tokens import CommentToken

    index = list(rows).index(key)
    tokens = rows.ca.items.pop(key, [])
    del rows[key]
    nested = [token if isinstance(token, list) else [token] for token in tokens if token]
    text = "".join([token.value for group in nested for token in group])
    if not text.strip() or not rows:
        return
    before = rows.ca.items.setdefault(list(rows)[index - 1], [None, None, None, None])
    if before[2] is None:
        before[2] = CommentToken(text, CommentMark(0))
    else:
        before[2].value += text


def _comments(text: str) -> set[str]:
    return {line.strip() for line in _LINE_BREAK.split(text) if line.lstrip().startswith("#")}

"""Read and update ``WORKFLOW-STATUS.yaml``, a file that belongs to people too.

ruamel's round trip keeps comments, order, quotes and keys that Holdfast does not know. Every scalar
is loaded as text, so that a foreign number or date is written back as it was. The spacing inside a
changed file may be normalised; a file that already has the wanted values is returned unchanged.
"""

from __future__ import annotations

import re
from io import StringIO
from types import MappingProxyType

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import CommentMark, MarkedYAMLError, YAMLError
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString
from ruamel.yaml.tokens import CommentToken

from holdfast.core.initiative_sources import Source
from holdfast.core.time import epoch_ms
from holdfast.initiatives import BadFile
from holdfast.initiatives.sources import FORCED, NAME, PROGRESS, quoted, status_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEYS = ("initiative", "milestone", "status")
_SPELLINGS = {"milestone": ("milestone", "currentMilestone"), "updated": ("updated", "lastUpdated")}
"""Keys that people also spell as in ``initiative.json``. A new file has the first spelling."""
MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
_BOM = "\ufeff"
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_DOCUMENT = re.compile(
    r"((?:[ \t]*+(?:[#%][^\r\n]*+)?+(?>\r\n|\r|\n))*+---[ \t]*+(?:#[^\r\n]*+)?+(?>\r\n|\r|\n))?"
    r"(.*?)((?:^\.\.\.|\Z).*)",
    re.DOTALL | re.MULTILINE,
)
"""What comes before the map, the map, and what comes after it.

No line can be matched in two ways: with many comments that would take for ever.
"""
_NULLS = ("", "~", "null", "Null", "NULL")


class Status:
    """A parsed file. The constructor raises ``BadFile`` if the file cannot be used."""

    def __init__(self, raw: bytes, path: str = NAME) -> None:
        self._raw = raw
        self.path = path
        if len(raw) > MAX_BYTES:
            raise self._bad(1, f"it has {len(raw):,} bytes; the limit is {MAX_BYTES:,}")
        try:
            self._text = raw.decode().removeprefix(_BOM)
        except UnicodeDecodeError as error:
            raise self._bad(raw[: error.start].count(b"\n") + 1, "it is not UTF-8") from None
        self._map = self._load()
        self.initiative, self.milestone, self.status = map(self._value, KEYS)
        times = [time for time in map(self._spelled_value, self._spelled("updated")) if time]
        self.updated = max(times, key=lambda time: epoch_ms(time) or 0, default=None)
        """The newest time in the file."""
        self.forced = self._value(FORCED)
        """What was completed by force, of whichever initiative."""
        rows: Any = self._map.get(PROGRESS)
        if _is_null(rows):
            rows = {}
        elif not isinstance(rows, dict):
            raise self._bad(self.line_of(PROGRESS), f"{PROGRESS} must be a map")
        values = {row: self._text_of(rows, row, f"{PROGRESS}.{row}") for row in rows}
        self.progress = {row: value for row, value in values.items() if value is not None}

    def source(self, initiative: str | None = None) -> Source:
        """Return what the file says, for a comparison with other sources."""
        return Source(
            NAME, self.updated, self.milestone, self.status, self.progress, self.path, initiative
        )

    def line_of(self, key: str, row: str | None = None) -> int:
        """Return the line of a key, or of a row of ``progress``; 1 if the file has no such key."""
        key = self._spelled(key)[0]
        if key not in self._map:
            return 1
        rows: Any = self._map[key]
        if row is not None and isinstance(rows, dict) and row in rows:
            return _line(rows, row)
        return _line(self._map, key)

    def with_values(self, values: dict[str, str], progress: dict[str, str]) -> bytes:
        """Return the file with these values; raise ``BadFile`` if it cannot hold them.

        Rows of ``progress`` that Holdfast does not know stay, unless the file described another
        initiative: then they were its milestones.
        """
        others = []
        if self.initiative not in (None, values.get("initiative")):
            others = [row for row in self.progress if row not in progress]
        values = {name: value for key, value in values.items() for name in self._spelled(key)}
        is_current = all(self._spelled_value(key) == value for key, value in values.items())
        if is_current and not others and progress.items() <= self.progress.items():
            return self._raw
        newline = _LINE_BREAK.search(self._text)
        if self._map:
            text = _with_values(self._text, values, progress, others)
        else:
            gap = "\n" if self._text and not self._text.endswith(("\r", "\n")) else ""
            text = self._text + gap + "\n".join(status_rows(values, progress)) + "\n"
        text = _LINE_BREAK.sub(newline[0] if newline else "\n", text)
        bom = _BOM if self._raw.startswith(_BOM.encode()) else ""
        after = (bom + text).encode()
        # Compare what was written with what was there: nothing of it may be lost.
        result = Status(after, self.path)
        own_rows = {row: value for row, value in self.progress.items() if row not in others}
        is_whole = (
            all(result._spelled_value(key) == value for key, value in values.items())
            and result.progress == {**own_rows, **progress}
            and set(self._map) <= set(result._map)
            and _comments(self._text) <= _comments(result._text)
        )
        if not is_whole:
            raise self._bad(1, "its values cannot be replaced where they stand")
        return after

    def _bad(self, line: int, why: str) -> BadFile:
        return BadFile(self.path, line, why)

    def _load(self) -> CommentedMap:
        """Return the map of the file, empty for an empty file."""
        try:
            self._check_nesting()
            root = _yaml().load(self._text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            why = str(error.problem or error.context or "it cannot be read")
            raise self._bad((mark.line if mark else 0) + 1, why) from None
        except (YAMLError, ArithmeticError, AssertionError, AttributeError, LookupError,
                RuntimeError, TypeError, ValueError) as error:  # fmt: skip
            why = str(error).partition("\n")[0] or "it cannot be read"
            raise self._bad(1, why) from None
        if root is None or root == "":
            return CommentedMap()
        line = int(root.lc.line) + 1 if hasattr(root, "lc") else 1
        if not isinstance(root, CommentedMap):
            raise self._bad(line, "the document must be a map, not a list or text")
        if root.fa.flow_style():
            raise self._bad(line, "its map must have a line for each key")
        if not all(isinstance(key, str) for key in root):
            raise self._bad(line, "a key must be text")
        return root

    def _check_nesting(self) -> None:
        """Raise ``BadFile`` for deep nesting, and for aliases, which a change would break."""
        depth = 0
        for event in _yaml().parse(self._text):
            line = int(event.start_mark.line) + 1
            if getattr(event, "anchor", None) is not None:
                raise self._bad(line, f"aliases are not read (&{event.anchor})")
            kind = type(event).__name__
            depth += kind in ("MappingStartEvent", "SequenceStartEvent")
            depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
            if depth > MAX_DEPTH:
                raise self._bad(line, f"it is nested deeper than {MAX_DEPTH} levels")

    def _spelled(self, key: str) -> list[str]:
        """Return the spellings of a key that the file has; the first one if it has none."""
        spellings = _SPELLINGS.get(key, (key,))
        return [name for name in spellings if name in self._map] or [spellings[0]]

    def _value(self, key: str) -> str | None:
        return self._spelled_value(self._spelled(key)[0])

    def _spelled_value(self, name: str) -> str | None:
        return self._text_of(self._map, name, name)

    def _text_of(self, rows: Any, key: str, name: str) -> str | None:
        """Return a value, ``None`` where there is none; raise ``BadFile`` if it is not one line."""
        value = rows.get(key)
        value = getattr(value, "value", value)  # of a scalar with a tag
        if _is_null(value):
            return None
        if not isinstance(value, str) or _LINE_BREAK.search(value.strip()):
            raise self._bad(_line(rows, key), f"{name} must be text on one line")
        return value.strip() or None


class TextResolver(VersionedResolver):
    """Takes every scalar for text."""

    versioned_resolver = MappingProxyType[str, list[object]]({})


def _yaml() -> YAML:
    """Return a round-trip parser that takes every scalar for text."""
    yaml = YAML(typ="rt", pure=True)
    yaml.Resolver = TextResolver
    yaml.preserve_quotes = True
    yaml.width = 2 * MAX_BYTES
    return yaml


def _is_null(value: object) -> bool:
    """Return whether a value is missing; with quotes, the same words are text."""
    return value is None or (type(value) is str and value in _NULLS)


def _line(rows: Any, key: str) -> int:
    return int(rows.lc.key(key)[0]) + 1


def _with_values(
    text: str, values: dict[str, str], progress: dict[str, str], others: list[str]
) -> str:
    """Return the text of a map with these values, without the rows ``others`` of ``progress``."""
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
    before = rows.get(key)
    if isinstance(before, str) and before.strip() == value:
        return
    if isinstance(before, SingleQuotedScalarString | DoubleQuotedScalarString):
        rows[key] = type(before)(value)
    else:
        rows[key] = value if quoted(value) == value else DoubleQuotedScalarString(value)


def _remove(rows: CommentedMap, key: str) -> None:
    """Remove a row; move its comments to the row before it, for the first row to the last."""
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

"""JSON as Holdfast reads and writes it, over the interpreter's own C scanner and encoder; digests.

The ``json`` package spends most of its import on regular expressions that these two do not need; it
is imported only to explain a syntax error. Numbers are normalised while they are read (``2.0`` is
``2``), so that another tool's way to print them is not an edit. The hashes are built-in as well:
``hashlib`` has the same functions, but loads OpenSSL at every start.
"""

from __future__ import annotations

from _json import encode_basestring, make_scanner
from _json import make_encoder as _make_encoder
from _operator import is_ as _is

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Path = list[str | int]

MAX_INPUT_DEPTH = 48
"""The deepest nesting of a value in a command's arguments."""
MAX_DEPTH = 64
"""The deepest nesting of a record, which has such values some levels down."""
MAX_EVENT_DEPTH = 80
"""The deepest nesting of an event, which may have a record's state some levels down."""
MAX_DIGITS = 64
MAX_VALUES = 500_000
"""The largest number of values in a text from outside: each takes up to a hundred bytes."""
MAX_EVENT_VALUES = 4 * MAX_VALUES
"""That of an event, which may have two states and the paths at which they differ."""
TOO_MANY = "it has too many values"
TOO_DEEP = "it is nested too deeply"
HALF_A_PAIR = "it has half of a surrogate pair"
_SPACE = " \t\n\r"
_UNKNOWN_LINE = 0
"""The line of a fault that the C scanner reports without a position."""


class BadJson(ValueError):
    """The text is not JSON that Holdfast accepts; ``line`` is the line of the fault."""

    def __init__(self, why: str, line: int = 1) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


def _number(text: str) -> int | float:
    value = float(text)
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
        raise BadJson(f"the number {text[:20]} is too large", _UNKNOWN_LINE)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise BadJson(f"a number of {len(text)} digits is too large", _UNKNOWN_LINE)
    return int(text)


def _constant(text: str) -> object:
    raise BadJson(f"{text} is not JSON", _UNKNOWN_LINE)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BadJson(_twice(key), _UNKNOWN_LINE)
            seen.add(key)
    return fields


def _twice(key: str) -> str:
    return f"the key {key!r} stands twice in one object"


class _Context:
    """The settings that the C scanner reads."""

    strict = True
    object_hook = None
    object_pairs_hook: object = None
    parse_float = staticmethod(_number)
    parse_int: object = int
    """The scanner makes numbers of exactly this type without a call."""
    parse_constant = staticmethod(_constant)


class _StrictContext(_Context):
    parse_int = staticmethod(_integer)
    object_pairs_hook = staticmethod(_unique)


_scan = make_scanner(_Context())  # type: ignore[arg-type]
_scan_strict = make_scanner(_StrictContext())  # type: ignore[arg-type]


def loads(
    text: str | bytes, *, strict: bool = False, depth: int = MAX_DEPTH, values: int = MAX_VALUES
) -> Any:
    """Return the value of a JSON text; raise ``BadJson`` if it is not JSON.

    ``strict`` is for text from outside: it also refuses repeated keys, lone surrogates, nesting
    that is deeper than ``depth``, and more than ``values`` values.
    """
    if isinstance(text, bytes):
        text = _decoded(text)
    if strict:
        check_count(text, values)
    try:
        value, end = (_scan_strict if strict else _scan)(text, len(text) - len(text.lstrip(_SPACE)))
        if strict:
            _check(value, depth)
    except BadJson as bad:
        if bad.line != _UNKNOWN_LINE:
            raise
        why = bad.why
    except RecursionError:
        why = TOO_DEEP
    except (StopIteration, SystemError, ValueError):
        raise _explained(text) from None
    else:
        if text[end:].strip(_SPACE):
            raise BadJson("there is text after the value", text.count("\n", 0, end) + 1)
        return value
    raise BadJson(why, line_of_fault(text, why))


def loads_several(raw: bytes) -> list[Any]:
    """Return the values of JSON texts that follow each other; raise ``BadJson`` if one is none."""
    text = _decoded(raw)
    values = []
    end = 0
    while end < len(text):
        if text[end] in _SPACE:
            end += 1
            continue
        try:
            value, end = _scan(text, end)
        except (StopIteration, SystemError, ValueError, RecursionError):
            raise BadJson("it is not JSON") from None
        values.append(value)
    return values


def check_count(text: str | bytes, most: int = MAX_VALUES) -> None:
    """Raise ``BadJson`` if a text has more than ``most`` values. It need not be JSON."""
    if len(text) < 2 * most:  # Every value but one has a comma or a bracket before it.
        return
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    if _most_values(text) > most:
        import re

        # Most of these characters may be inside strings.
        outside = re.sub(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', "", text, flags=re.DOTALL)
        if _most_values(outside) > most:
            raise BadJson(TOO_MANY)


def _most_values(text: str) -> int:
    """Return a number that is not less than that of the values of a JSON text."""
    return 1 + sum(map(text.count, ",[{"))


def _decoded(raw: bytes) -> str:
    try:
        return raw.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise BadJson("it is not UTF-8", line) from None


def _explained(text: str) -> BadJson:
    """Return the syntax error in the words of the ``json`` package.

    Unless that package is loaded, the C scanner has no exception to raise and gives
    ``SystemError``.
    """
    if not text.strip(_SPACE):
        return BadJson("it is empty")
    from json import JSONDecodeError, JSONDecoder

    try:
        JSONDecoder().decode(text)
    except JSONDecodeError as error:
        return BadJson(error.msg[:1].lower() + error.msg[1:], error.lineno)
    except ValueError:
        loads(text, strict=True)  # raises BadJson for the integer that is too long for Python
    return BadJson("it is not JSON")


def _check(value: object, depth: int) -> None:
    if depth == 0:
        raise BadJson(TOO_DEEP, _UNKNOWN_LINE)
    if isinstance(value, str):
        if not is_encodable(value):
            raise BadJson(HALF_A_PAIR, _UNKNOWN_LINE)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check(key, depth)
            _check(inner, depth - 1)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, depth - 1)


def is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse(value: object) -> object:
    """Raise ``TypeError`` for a value that JSON does not have."""
    raise TypeError(f"{type(value).__name__} is not JSON")


_encode = _make_encoder(None, refuse, encode_basestring, None, ":", ",", False, False, False)


def dumps(value: object) -> str:
    """Return compact JSON, with the keys in their order."""
    return "".join(_encode(value, 0))


_encode_spaced = _make_encoder(
    None, refuse, encode_basestring, None, ": ", ", ", False, False, False
)
_WIDTH = 96


def line_of(value: object) -> str:
    """Return JSON on one line, with spaces."""
    return "".join(_encode_spaced(value, 0))


def pretty(value: object, indent: str = "", levels: int = 3) -> str:
    """Return JSON for people: each field and each entry of a list of objects on its own line.

    An object that fits on a line and has no list of objects in it is on one line.
    """
    if not value or not isinstance(value, dict):
        return "".join(_encode_spaced(value, 0))
    inner = indent + "  "
    rows = []
    for key, item in value.items():
        if type(item) is str:
            text = encode_basestring(item)
        elif levels > 1 and item and isinstance(item, dict):
            text = pretty(item, inner, levels - 1)
        elif levels > 1 and item and isinstance(item, list) and isinstance(item[0], (dict, list)):
            between = f",\n{inner}  "
            text = f"[\n{inner}  {between.join(_lines.of_all(item))}\n{inner}]"
        elif isinstance(item, dict):
            text = _lines.of_all([item])[0]
        else:
            text = "".join(_encode_spaced(item, 0))
        rows.append(f"{encode_basestring(key)}: {text}")
    line = "{" + ", ".join(rows) + "}"
    if indent and len(line) + len(indent) <= _WIDTH and "\n" not in line:
        return line
    between = f",\n{inner}"
    return f"{{\n{inner}{between.join(rows)}\n{indent}}}"


class TextMemo:
    """The JSON of objects that are never changed in place.

    State is never changed in place, so most entries of a record are the same objects as one event
    before. Each object is kept, so that no other object can get its id.
    """

    def __init__(self, encode: Callable[[object, int], Iterable[str]]) -> None:
        self._encode = encode
        self._texts: dict[int, str] = {}
        self._objects: list[object] = []
        self._characters = 0

    def of_all(self, values: list[Any]) -> list[str]:
        texts: list[Any] = list(map(self._texts.get, map(id, values)))
        index = -1
        for _ in range(texts.count(None)):
            index = texts.index(None, index + 1)
            value = values[index]
            texts[index] = text = "".join(self._encode(value, 0))
            self._characters += len(text)
            if len(self._objects) >= MAX_KEPT or self._characters > _MAX_KEPT_CHARACTERS:
                self._texts.clear()
                self._objects.clear()
                self._characters = len(text)
            self._texts[id(value)] = text
            self._objects.append(value)
        return texts


MAX_KEPT = 500
_MAX_KEPT_CHARACTERS = 500_000
"""The size of all texts that are kept, unless one of them alone is larger."""
_lines = TextMemo(_encode_spaced)
_dumps = TextMemo(_encode)


class FieldTexts:
    """Compact JSON of a state that is replaced often with few of its fields changed."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._values: list[Any] = []
        self._texts: list[str] = []

    def dumps(self, state: Any) -> str:
        """Return what ``dumps`` returns, but encode only fields that are new objects."""
        if not isinstance(state, dict):
            return dumps(state)
        keys, values = list(state), list(state.values())
        if keys != self._keys:
            self._keys, self._texts = keys, [""] * len(keys)
            self._values = [_NOTHING] * len(keys)
        is_same = list(map(_is, values, self._values))
        index = -1
        for _ in range(is_same.count(False)):
            index = is_same.index(False, index + 1)
            value = values[index]
            if isinstance(value, list) and value and isinstance(value[0], dict):
                text = f"[{','.join(_dumps.of_all(value))}]"
            else:
                text = dumps(value)
            self._texts[index] = f"{encode_basestring(keys[index])}:{text}"
        self._values = values
        return f"{{{','.join(self._texts)}}}"


_NOTHING = object()


# Line numbers, for error messages: the C scanner reports what is wrong, not where, so the text is
# walked again, token by token.


def line_of_path(text: str, path: Path) -> int:
    """Return the line of the value at ``path``, or of its innermost ancestor that exists."""
    position, depth = 0, -1
    try:
        for start, _, value_path, is_key in _walk(text):
            is_closer = depth < len(value_path) and value_path == path[: len(value_path)]
            if is_closer and not is_key:
                position, depth = start, len(value_path)
                if depth == len(path):
                    break
    except ValueError:
        position = 0
    return text.count("\n", 0, position) + 1


def line_of_fault(text: str, why: str) -> int:
    """Return the first line with this fault, one of the messages above."""
    try:
        position = next((start for start, fault in _faults(text) if fault == why), 0)
    except ValueError:
        position = 0
    return text.count("\n", 0, position) + 1


def _faults(text: str) -> Iterator[tuple[int, str]]:
    from json.decoder import scanstring  # type: ignore[attr-defined]

    keys: list[set[str]] = []
    for start, word, path, is_key in _walk(text):
        del keys[len(path) :]
        while len(keys) < len(path):
            keys.append(set())
        if word == '"':
            string = scanstring(text, start + 1)[0]
            if not is_encodable(string):
                yield start, HALF_A_PAIR
            if is_key and string in keys[-1]:
                yield start, _twice(string)
            if is_key:
                keys[-1].add(string)
        elif word[-1].isdigit() or word.endswith(("NaN", "Infinity")):
            try:
                _scan_strict(word, 0)
            except BadJson as bad:
                yield start, bad.why
        if len(path) >= MAX_DEPTH and not is_key:
            yield start, TOO_DEEP


def _walk(text: str) -> Iterator[tuple[int, str, Path, bool]]:
    """Yield the position of every key and value, its first token, its path, and if it is a key.

    The path is the same list every time, and changes while the text is walked.
    """
    import re
    from json.decoder import scanstring  # type: ignore[attr-defined]

    colon = re.compile(r"[ \t\r\n]*:")
    token = re.compile(r'[]{}[,]|"|-?Infinity|NaN|-?\d[\d.eE+-]*|true|false|null')
    path: Path = []
    position = 0
    while match := token.search(text, position):
        start, position = match.span()
        word, is_key = match.group(), False
        if word in "]}":
            del path[-1:]
        elif word == ",":
            if path and isinstance(path[-1], int):
                path[-1] += 1
        else:
            if word == '"':
                string, position = scanstring(text, position)
                if path and isinstance(path[-1], str) and colon.match(text, position):
                    path[-1], is_key = string, True
            yield start, word, path, is_key
            if word in "{[":
                path.append("" if word == "{" else 0)


# Digests

HEX_DIGITS = 32


_blake2b: Any = None


def digest(data: bytes) -> str:
    """Return 32 hexadecimal digits: enough to detect accidents, not forgery."""
    global _blake2b  # noqa: PLW0603 - most hooks need no digest, and do not load it
    if _blake2b is None:
        from _blake2 import blake2b as _blake2b
    digits: str = _blake2b(data, digest_size=HEX_DIGITS // 2).hexdigest()
    return digits


def md5_of(text: str) -> str:
    """Return the MD5 of a text in hexadecimal, for record names that are defined by it."""
    try:
        from _md5 import md5  # type: ignore[import-not-found]
    except ImportError:  # an interpreter that has it only behind hashlib
        from hashlib import md5
    digits: str = md5(text.encode(errors="replace"), usedforsecurity=False).hexdigest()
    return digits

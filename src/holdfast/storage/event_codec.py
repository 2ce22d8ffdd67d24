"""Convert an event to a database row or a line of JSON and back, and verify its hash.

The hash covers the event's line without its last field, ``hash``; it includes the previous event's
hash, ``prev``. ``holdfast export`` prints these lines, so ``b2sum -l 128`` can check a hash.
"""

from __future__ import annotations

from _json import encode_basestring as _quoted

from holdfast.core import json_text
from holdfast.core.json_text import digest
from holdfast.errors import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Draft, Event, Fields

SCHEMA = 1
COLUMNS = "seq, id, at, stream, version, v, type, data, by, part, prev, hash"
_NUMBERS = dict.fromkeys(("seq", "version", "v"), int)
_TEXTS = dict.fromkeys(("id", "at", "stream", "type", "prev", "hash"), str)
_REQUIRED: dict[str, type] = {**_NUMBERS, **_TEXTS, "data": dict, "by": dict}
_KINDS = [*_REQUIRED.values()]
_ROW_KINDS = [
    (int, str, str, str, int, int, str, str, str, part, str, str) for part in (type(None), str)
]
_WRONG_TYPES = "fields are missing or not of their kind"
_text = json_text.dumps


class BadEvent(ValueError):
    """A row or a line is not a valid event; the message says why."""


def made(
    drafts: list[Draft],
    *,
    stream: str,
    version: int,
    seq: int,
    prev: str,
    at: str,
    by: Fields,
    request: str,
) -> list[tuple[Event, tuple[Any, ...]]]:
    """Number drafts from ``seq`` and ``version`` on; return each as an event and as a row."""
    by_text = _text(by)
    rows = []
    for number, draft in enumerate(drafts, 1):
        own_id = request if number == 1 else f"{request}.{number}"
        event: Event = {
            "seq": seq + number, "id": own_id, "at": at, "stream": stream,
            "version": version + number, "v": SCHEMA, "type": draft["type"],
            "data": draft["data"], "by": by, "prev": prev, "hash": "",
        }  # fmt: skip
        data_text = _text(draft["data"])
        row = (
            event["seq"], own_id, at, stream, event["version"], SCHEMA, draft["type"], data_text,
            by_text, None, prev,
        )  # fmt: skip
        prev = event["hash"] = digest(body_of(row).encode())
        rows.append((event, (*row, prev)))
    return rows


def body_of(row: tuple[Any, ...]) -> str:
    """Return the text that an event's hash covers."""
    seq, own_id, at, stream, version, v, kind, data, by, part, prev = row[:11]
    parts = f',"part":{part}' if part is not None else ""
    return (
        f'{{"seq":{seq},"id":{_quoted(own_id)},"at":{_quoted(at)},"stream":{_quoted(stream)}'
        f',"version":{version},"v":{v},"type":{_quoted(kind)},"data":{data},"by":{by}{parts}'
        f',"prev":{_quoted(prev)}'
    )


def moved(row: tuple[Any, ...], seq: int, version: int, prev: str) -> tuple[Any, ...]:
    """Return an event's row with another position in the chain, and its new hash."""
    _, own_id, at, stream, _, v, kind, data, by = row[:9]
    body = (seq, own_id, at, stream, version, v, kind, data, by, None, prev)
    return (*body, digest(body_of(body).encode()))


def part_of(text: str) -> tuple[int, int]:
    """Return the number of a version 0.1 event in its commit, and the commit's number of events."""
    part = json_text.loads(text)
    is_part = isinstance(part, list) and [type(number) for number in part] == [int, int]
    return (part[0], part[1]) if is_part else (1, 1)


def line_of(row: tuple[Any, ...]) -> str:
    """Return a row as a line of JSON."""
    return f'{body_of(row)},"hash":{_text(row[11])}}}'


def event_of(row: tuple[Any, ...]) -> Event:
    """Return the event of a row from the database. Its types and its hash are not checked."""
    seq, own_id, at, stream, version, v, kind, data, by, part, prev, own = row
    event: Event = {
        "seq": seq, "id": own_id, "at": at, "stream": stream, "version": version, "v": v,
        "type": kind, "data": json_text.loads(data), "by": json_text.loads(by), "prev": prev,
        "hash": own,
    }  # fmt: skip
    if part is not None:
        event["part"] = json_text.loads(part)
    return event


def read(row: tuple[Any, ...]) -> Event:
    """Return the event of a row. Its hash is not checked.

    Raise ``BadEvent`` if the row is not an event, ``Fault`` if a newer Holdfast wrote it.
    """
    _check_kinds(row)
    try:
        event = event_of(row)
    except json_text.BadJson as bad:
        raise BadEvent(bad.why) from None
    if type(event["data"]) is not dict or type(event["by"]) is not dict:
        raise BadEvent(_WRONG_TYPES)
    if row[0] < 1 or row[4] < 1:
        raise BadEvent("its place is none")
    if row[5] > SCHEMA:
        raise newer_event(row[5])
    return event


def _check_kinds(row: tuple[Any, ...]) -> None:
    if tuple(map(type, row)) not in _ROW_KINDS:
        raise BadEvent(_WRONG_TYPES)


def check(row: tuple[Any, ...]) -> None:
    """Raise ``BadEvent`` if a row does not match its hash. Its JSON is not parsed.

    Raise ``Fault`` if a newer Holdfast wrote it.
    """
    _check_kinds(row)
    try:
        body = body_of(row).encode()
    except UnicodeEncodeError:
        raise BadEvent(json_text.HALF_A_PAIR) from None
    if digest(body) != row[11]:
        raise BadEvent("its hash does not match")
    if row[5] > SCHEMA:
        raise newer_event(row[5])


def checked(row: tuple[Any, ...]) -> Event:
    """Return the event of a row; raise ``BadEvent`` if it does not match its hash."""
    check(row)
    return read(row)


def row_of(line: bytes) -> tuple[Any, ...]:
    """Return the row of a line of JSON; raise ``BadEvent`` if it does not match its hash."""
    try:
        event = typed(json_text.loads(line, strict=True))
    except json_text.BadJson as bad:
        raise BadEvent(bad.why) from None
    part = event.get("part")
    row = (
        event["seq"], event["id"], event["at"], event["stream"], event["version"], event["v"],
        event["type"], _text(event["data"]), _text(event["by"]),
        None if part is None else _text(part), event["prev"], event["hash"],
    )  # fmt: skip
    checked(row)
    return row


def typed(event: Any) -> Event:
    """Return a parsed JSON value as an event.

    Raise ``BadEvent`` if a field has the wrong type, ``Fault`` if a newer Holdfast wrote it.
    """
    if not isinstance(event, dict):
        raise BadEvent("it is not an object")
    if [type(event.get(key)) for key in _REQUIRED] != _KINDS:
        raise BadEvent(_WRONG_TYPES)
    if event["seq"] < 1 or event["version"] < 1:
        raise BadEvent("its place is none")
    if event["v"] > SCHEMA:
        raise newer_event(event["v"])
    return event  # type: ignore[return-value]


def newer_event(version: int) -> Fault:
    return Fault(
        "newer_ledger",
        f"the ledger has events of format {version}; this Holdfast knows up to {SCHEMA}",
        "install the newer Holdfast: git pull in its checkout, then pip install .",
    )

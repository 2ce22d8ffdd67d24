"""One event, one line: how an event becomes bytes, and how bytes prove that they are an event.

The hash covers the line's own bytes before it, ``prev`` among them: nothing has to be put into a
canonical form to be checked, and ``b2sum -l 128`` can do it by hand.
"""

from __future__ import annotations

from holdfast import jsontext
from holdfast.digest import HEX_DIGITS, digest
from holdfast.errors import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Event, Fields

SCHEMA = 1
_HASH_KEY = b',"hash":"'
_END = b'"}'
_NUMBERS = dict.fromkeys(("seq", "version", "v"), int)
_TEXTS = dict.fromkeys(("id", "at", "stream", "type", "prev", "hash"), str)
_REQUIRED: dict[str, type] = {**_NUMBERS, **_TEXTS, "data": dict, "by": dict}


class BadLine(ValueError):
    """A line of the ledger that is not a whole event."""


class NewerLine(Fault):
    """A line that a newer Holdfast wrote: this one must not go on from it."""


def encode(event: Fields) -> tuple[bytes, str]:
    """The line of an event that has everything but its hash, and the hash."""
    body = jsontext.dumps(event)[:-1].encode()
    own = digest(body)
    return body + _HASH_KEY + own.encode() + _END + b"\n", own


def decode(line: bytes) -> Event:
    """The event of a line without its newline."""
    split = len(line) - len(_HASH_KEY) - HEX_DIGITS - len(_END)
    if split < 0 or line[split : split + len(_HASH_KEY)] != _HASH_KEY or line[-2:] != _END:
        raise BadLine("it does not end in a hash")
    if digest(line[:split]).encode() != line[-HEX_DIGITS - 2 : -2]:
        raise BadLine("its hash does not match")
    try:
        event: Event = jsontext.loads(line)
    except jsontext.BadJson as error:
        raise BadLine(error.why) from None
    if any(type(event.get(key)) is not kind for key, kind in _REQUIRED.items()):
        raise BadLine("fields are missing or not of their kind")
    if b"\\u" in line and not jsontext.is_encodable(jsontext.dumps(event)):
        # Nothing that has it could be written anywhere.
        raise BadLine(jsontext.HALF_A_PAIR)
    if event["seq"] < 1 or not _is_part(event.get("part", [1, 1])):
        raise BadLine("its place is none")
    if event["v"] > SCHEMA:
        raise NewerLine(
            "newer_ledger",
            f"the ledger has events of schema {event['v']}; this Holdfast knows up to {SCHEMA}",
            "install the newer Holdfast: git pull in its checkout, then pip install .",
        )
    return event


def _is_part(part: object) -> bool:
    """Whether it is ``[k, n]``, the k-th of n."""
    return (
        isinstance(part, list)
        and [type(number) for number in part] == [int, int]
        and 1 <= part[0] <= part[1]
    )

"""What makes a JSON document a record: the ``_holdfast`` object at its end.

``ledger``, ``seq`` and ``hash`` say which event the record shows; ``digest`` covers the values, so
another tool's formatting is not an edit; ``rest`` is the state that the format cannot express.

What is hashed is the record's own text without the digest. So a file that nobody touched is proven
by its bytes, and only one that looks different is laid out again to see whether its values are.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.digest import HEX_DIGITS, digest
from holdfast.system.disk import FOLDER, LARGEST, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json

KEY = "_holdfast"
_STANDS_THERE = {FOLDER: "a folder stands there", ODD: "a pipe, a socket or a device stands there"}
_DIGEST = b'"digest": "'
_DIGEST_END = b'",'


class Sealed:
    """A record as it was found: the document, and what its envelope claims."""

    __slots__ = ("document", "hash", "intact", "ledger", "rest", "seq")

    def __init__(self, document: Fields, envelope: object, *, intact: bool) -> None:
        claims = envelope if isinstance(envelope, dict) else {}
        self.document = document
        self.intact = intact
        ledger, seq = claims.get("ledger"), claims.get("seq")
        event_hash, rest = claims.get("hash"), claims.get("rest")
        self.ledger = ledger if isinstance(ledger, str) else ""
        self.seq = seq if isinstance(seq, int) else 0
        self.hash = event_hash if isinstance(event_hash, str) else ""
        self.rest: Fields | None = rest if isinstance(rest, dict) else None


def seal(document: Fields, rest: Fields, ledger: str, seq: int, event_hash: str) -> bytes:
    """The record's bytes."""
    before, after = _around_digest(
        document, {"ledger": ledger, "seq": seq, "hash": event_hash}, rest
    )
    return before + _DIGEST + digest(before + after).encode() + _DIGEST_END + after


def _around_digest(document: Fields, claims: Fields, rest: Json) -> tuple[bytes, bytes]:
    """The record's text before its digest, and after it."""
    text = json_text.laid_out(document)
    before = f'{text[:-2]},\n  "{KEY}": {json_text.line_of(claims)[:-1]}, '
    after = f'\n    "rest": {json_text.laid_out(rest, "    ", levels=1)}}}\n}}\n'
    return before.encode(), after.encode()


def unseal(raw: bytes) -> Sealed:
    """The record in these bytes; ``BadJson`` when they are not an object."""
    if raw in _STANDS_THERE:
        raise json_text.BadJson(_STANDS_THERE[raw])
    if len(raw) > LARGEST:
        raise json_text.BadJson(f"it has more than {LARGEST} bytes")
    # Its digest does not say that it is ours: half a pair, which we never write, is looked for.
    if b"\\ud" not in raw and b"\\uD" not in raw and _is_untouched(raw):
        document = json_text.loads(raw)
        if isinstance(document, dict) and isinstance(document.get(KEY), dict):
            return Sealed(document, document.pop(KEY), intact=True)
    document = json_text.loads(raw, strict=True)
    if not isinstance(document, dict):
        raise json_text.BadJson("it is not an object")
    intact = _has_same_values(document)
    return Sealed(document, document.pop(KEY, None), intact=intact)


def _is_untouched(raw: bytes) -> bool:
    """Whether the bytes are what ``seal`` made; the envelope is the last that could claim it."""
    before, mark, claimed = raw.rpartition(_DIGEST)
    end = HEX_DIGITS + len(_DIGEST_END)
    return (
        bool(mark)
        and claimed[HEX_DIGITS:end] == _DIGEST_END
        and digest(before + claimed[end:]).encode() == claimed[:HEX_DIGITS]
    )


def _has_same_values(document: Fields) -> bool:
    """Whether the values are those that were sealed, however they are written."""
    envelope = document.get(KEY)
    if not isinstance(envelope, dict) or "digest" not in envelope:
        return False
    values = {key: value for key, value in document.items() if key != KEY}
    claims = {key: value for key, value in envelope.items() if key not in ("digest", "rest")}
    try:
        before, after = _around_digest(values, claims, envelope.get("rest"))
    except (UnicodeEncodeError, RecursionError):
        return False
    return bool(digest(before + after) == envelope["digest"])


def digest_in(raw: bytes) -> str:
    """Return the digest that a record claims to have; empty if it claims none."""
    _, mark, claimed = raw.rpartition(_DIGEST)
    return claimed[:HEX_DIGITS].decode(errors="replace") if mark else ""


def is_record(raw: bytes, record_digest: str) -> bool:
    """True if these are the bytes that ``seal`` made with this digest."""
    return digest_in(raw) == record_digest and _is_untouched(raw)


def shows(raw: bytes, event_hash: str) -> bool:
    """Whether the record claims to show this event; a quick look, not a proof."""
    return f'"{event_hash}"'.encode() in raw

"""The signature of a record: the ``_holdfast`` object at the end of its JSON document.

``ledger``, ``seq`` and ``hash`` name the event that the record shows. ``rest`` is the state that
the format cannot express. ``digest`` covers the text of the record without the digest itself: an
unchanged file is proven by its bytes. A file with other bytes is laid out again to see whether its
values changed, so another tool's formatting is not an edit.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.core.json_text import HEX_DIGITS, digest
from holdfast.system.disk import FOLDER, MAX_RECORD_BYTES, ODD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Json

KEY = "_holdfast"
_NOT_FILES = {FOLDER: "a folder stands there", ODD: "a pipe, a socket or a device stands there"}
_DIGEST = b'"digest": "'
_DIGEST_END = b'",'


class SignedRecord:
    """A parsed record: its document, and what its signature claims."""

    __slots__ = ("document", "hash", "intact", "ledger", "rest", "seq")

    def __init__(self, document: Fields, signature: object, *, intact: bool) -> None:
        claims = signature if isinstance(signature, dict) else {}
        ledger, seq = claims.get("ledger"), claims.get("seq")
        event_hash, rest = claims.get("hash"), claims.get("rest")
        self.document = document
        self.intact = intact
        """The values are those that were signed."""
        self.ledger = ledger if isinstance(ledger, str) else ""
        self.seq = seq if isinstance(seq, int) else 0
        self.hash = event_hash if isinstance(event_hash, str) else ""
        self.rest: Fields | None = rest if isinstance(rest, dict) else None


def sign(document: Fields, rest: Json, claims: Fields) -> bytes:
    """Return the bytes of a record. ``claims``: the ``ledger``, ``seq`` and ``hash`` it shows."""
    text = json_text.pretty(document)
    before = f'{text[:-2]},\n  "{KEY}": {json_text.line_of(claims)[:-1]}, '.encode()
    after = f'\n    "rest": {json_text.pretty(rest, "    ", levels=1)}}}\n}}\n'.encode()
    return before + _DIGEST + digest(before + after).encode() + _DIGEST_END + after


def parse_signed(raw: bytes) -> SignedRecord:
    """Return the record in these bytes; raise ``BadJson`` if they are not a JSON object."""
    if raw in _NOT_FILES:
        raise json_text.BadJson(_NOT_FILES[raw])
    if len(raw) > MAX_RECORD_BYTES:
        raise json_text.BadJson(f"it has more than {MAX_RECORD_BYTES} bytes")
    # A valid digest does not prove that Holdfast wrote it. Lone surrogates, which Holdfast never
    # writes, are left to the strict parser.
    if b"\\ud" not in raw and b"\\uD" not in raw and is_record(raw, digest_in(raw)):
        document = json_text.loads(raw)
        if isinstance(document, dict) and isinstance(document.get(KEY), dict):
            return SignedRecord(document, document.pop(KEY), intact=True)
    document = json_text.loads(raw, strict=True)
    if not isinstance(document, dict):
        raise json_text.BadJson("it is not an object")
    intact = _has_same_values(document)
    return SignedRecord(document, document.pop(KEY, None), intact=intact)


def _has_same_values(document: Fields) -> bool:
    """Return whether the values are those that were signed, however they are formatted."""
    signature = document.get(KEY)
    if not isinstance(signature, dict) or "digest" not in signature:
        return False
    values = {key: value for key, value in document.items() if key != KEY}
    claims = {key: value for key, value in signature.items() if key not in ("digest", "rest")}
    try:
        signed = sign(values, signature.get("rest"), claims)
    except (UnicodeEncodeError, RecursionError):
        return False
    return bool(digest_in(signed) == signature["digest"])


def digest_in(raw: bytes) -> str:
    """Return the digest that a record claims; empty if it has none."""
    _, mark, claimed = raw.rpartition(_DIGEST)
    return claimed[:HEX_DIGITS].decode(errors="replace") if mark else ""


def is_record(raw: bytes, record_digest: str) -> bool:
    """Return whether these are the bytes that ``sign`` made with this digest."""
    before, _, claimed = raw.rpartition(_DIGEST)
    ending = record_digest.encode(errors="replace") + _DIGEST_END
    return claimed.startswith(ending) and digest(before + claimed[len(ending) :]) == record_digest


def is_own(raw: bytes, ledger: str) -> bool:
    """Return whether the bytes are an unedited record of this ledger."""
    try:
        record = parse_signed(raw)
    except json_text.BadJson:
        return False
    return record.intact and record.ledger == ledger

"""What makes a JSON document a record: the ``_holdfast`` object at its end.

``ledger``, ``seq`` and ``hash`` say which event the record shows; ``digest`` covers the values, so
another tool's formatting is not an edit; ``rest`` is the state that the format cannot express.
"""

from __future__ import annotations

from holdfast import jsontext
from holdfast.digest import digest
from holdfast.disk import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.shapes import Fields

KEY = "_holdfast"
MAX_BYTES = 16 * 1024 * 1024


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
    claims = {"ledger": ledger, "seq": seq, "hash": event_hash}
    claims_line = jsontext.line_of(claims)[:-1]
    line, text = jsontext.laid_out(document)
    rest_line, rest_text = jsontext.laid_out(rest, "    ", levels=1)
    covered = f'{line[:-1]}, "{KEY}": {claims_line}, "rest": {rest_line}}}}}'
    return (
        f'{text[:-2]},\n  "{KEY}": {claims_line}, "digest": "{digest(covered.encode())}",\n'
        f'    "rest": {rest_text}}}\n}}\n'
    ).encode()


def unseal(raw: bytes) -> Sealed:
    """The record in these bytes; ``BadJson`` when they are not an object."""
    if raw == FOLDER:
        raise jsontext.BadJson("a folder stands there")
    if len(raw) > MAX_BYTES:
        raise jsontext.BadJson(f"it has {len(raw)} bytes; {MAX_BYTES} are the most")
    document = jsontext.loads(raw)
    if not isinstance(document, dict):
        raise jsontext.BadJson("it is not an object")
    if _is_intact(document):
        return Sealed(document, document.pop(KEY), intact=True)
    document = jsontext.loads(raw, strict=True)
    return Sealed(document, document.pop(KEY, None), intact=False)


def _is_intact(document: Fields) -> bool:
    envelope = document.get(KEY)
    if not isinstance(envelope, dict) or "digest" not in envelope:
        return False
    claimed = envelope["digest"]
    rest = {key: value for key, value in envelope.items() if key != "digest"}
    try:
        return bool(digest(jsontext.line_of({**document, KEY: rest}).encode()) == claimed)
    except (UnicodeEncodeError, RecursionError):
        return False


def shows(raw: bytes, event_hash: str) -> bool:
    """Whether the record claims to show this event; a quick look, not a proof."""
    return f'"hash": "{event_hash}"'.encode() in raw

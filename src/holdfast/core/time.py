"""Time as text and numbers, without a clock: ISO 8601 in both directions, durations, ages.

``_datetime`` is the C half of ``datetime``: the Python half costs two milliseconds at every start.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import UTC, datetime, timedelta
else:
    try:
        from _datetime import UTC, datetime, timedelta
    except ImportError:  # an interpreter that has them in Python only
        from datetime import UTC, datetime, timedelta

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_UNIT_NAMES = {
    "sec": "s", "second": "s", "min": "m", "minute": "m", "hr": "h", "hour": "h", "day": "d",
    "week": "w",
}  # fmt: skip
_MAX_DIGITS = 10
_MAX_DURATION_CHARACTERS = 60
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def iso(epoch_ms: int) -> str:
    """Return a time as text, such as ``2026-11-15T20:31:06.123Z``."""
    return (_EPOCH + epoch_ms * _MILLISECOND).isoformat("T", "milliseconds") + "Z"


def epoch_ms(text: str) -> int | None:
    """Return the milliseconds since 1970 of an ISO 8601 time; ``None`` if the text is not one.

    A time without an offset is UTC.
    """
    if not 10 <= len(text) <= 40 or text[4] != "-" or text[7] != "-":
        return None
    if text[10:11] not in "Tt " or text[11:13] == "24":
        return None
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        return _unusual_epoch_ms(text)
    return (then - (_EPOCH if then.tzinfo is None else _EPOCH_UTC)) // _MILLISECOND


def _unusual_epoch_ms(text: str) -> int | None:
    """Read a time that ends in ``z``, or a leap second, which is the next minute's first second."""
    if text[-1] == "z":
        return epoch_ms(f"{text[:-1]}Z")
    if text[16:19] != ":60":
        return None
    before = epoch_ms(f"{text[:17]}59{text[19:]}")
    return None if before is None else before + 1_000


def duration_s(text: str) -> int | None:
    """Return the seconds of ``30s``, ``24H``, ``1h30m`` or ``2 days``; ``None`` for other text."""
    number, unit = text[:-1], text[-1:]
    if number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS and unit in _UNITS_S:
        return int(number) * _UNITS_S[unit]
    import re  # Only for the less common spellings: it would cost every start.

    part = rf"([0-9]{{1,{_MAX_DIGITS - 1}}}) *([a-z]+) *"
    if len(text) > _MAX_DURATION_CHARACTERS or not re.fullmatch(f"(?:{part})+", text.lower()):
        return None
    seconds = 0
    for number, unit in re.findall(part, text.lower()):
        name = unit if len(unit) == 1 else _UNIT_NAMES.get(unit.removesuffix("s"), "")
        if name not in _UNITS_S:
            return None
        seconds += int(number) * _UNITS_S[name]
    return seconds


def moment(text: str, now_ms: int) -> str | None:
    """Return the time that a date, a time or an age means; ``None`` if the text is none of them.

    ``2026-01-31`` is the first moment of that day in UTC, and ``24h`` that many hours before now.
    """
    seconds = duration_s(text)
    if seconds is not None:
        return iso(now_ms - seconds * 1_000) if now_ms >= seconds * 1_000 else None
    then = epoch_ms(text)
    return None if then is None or then < 0 else iso(then)


def is_past(now_ms: int, since: str, ttl: str) -> bool:
    """Return whether ``ttl`` has run out since ``since``; False if either cannot be read."""
    since_ms, seconds = epoch_ms(since), duration_s(ttl)
    if since_ms is None or seconds is None:
        return False
    return now_ms > since_ms + seconds * 1_000


def in_seconds(duration_ms: object) -> str:
    """Return ``0.4 s`` or ``12 s``; empty if the duration is unknown."""
    if not isinstance(duration_ms, int):
        return ""
    return f"{duration_ms / 1000:.1f} s" if duration_ms < 10_000 else f"{duration_ms // 1000} s"


def age(now: str, then: str) -> str:
    """Return an age in words: ``just now``, ``45 minutes ago``, ``3 days ago``."""
    now_ms, then_ms = epoch_ms(now), epoch_ms(then)
    if now_ms is None or then_ms is None:
        return "at an unknown time"
    seconds = (now_ms - then_ms) // 1_000
    if seconds < 0:
        return "in the future"
    for name, unit in (("day", "d"), ("hour", "h"), ("minute", "m")):
        count = seconds // _UNITS_S[unit]
        if count:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"

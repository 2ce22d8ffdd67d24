"""Time as text and numbers, without a clock: ISO 8601 both ways, durations, ages in words.

``datetime`` does the same and costs two milliseconds at every start; this is arithmetic.
"""

from __future__ import annotations

SECONDS_PER_DAY = 86_400
_MONTH_DAYS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": SECONDS_PER_DAY, "w": 7 * SECONDS_PER_DAY}


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a Gregorian date."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + day_of_year
        - 719_468
    )


def civil_from_days(days: int) -> tuple[int, int, int]:
    """The Gregorian date that lies ``days`` after 1970-01-01."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = (shifted + 2) % 12 + 1
    return (
        year_of_era + era * 400 + (month <= 2),
        month,
        day_of_year - (153 * shifted + 2) // 5 + 1,
    )


def iso(epoch_ms: int) -> str:
    """``2026-11-15T20:31:06.123Z``."""
    seconds, ms = divmod(epoch_ms, 1_000)
    days, second_of_day = divmod(seconds, SECONDS_PER_DAY)
    year, month, day = civil_from_days(days)
    minutes, second = divmod(second_of_day, 60)
    hour, minute = divmod(minutes, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"


def epoch_ms(text: str) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time, or ``None`` when it is not one.

    Without an offset the time is taken as UTC.
    """
    if not text.isascii() or len(text) < 10 or len(text) > 40:
        return None
    date, clock = text[:10], text[11:]
    if date[4] != "-" or date[7] != "-" or text[10:11] not in ("", "T", "t", " "):
        return None
    clock, offset_s = _split_offset(clock)
    parts = clock.split(":") if len(text) > 10 else ["00", "00"]
    if offset_s is None or len(parts) not in (2, 3):
        return None
    whole, dot, fraction = (parts[2] if len(parts) == 3 else "00").partition(".")
    hour, minute = parts[0], parts[1]
    digits = date[:4] + date[5:7] + date[8:] + hour + minute + whole + fraction
    pairs = len(hour) == len(minute) == len(whole) == 2
    if not pairs or not digits.isdigit() or (dot and not fraction):
        return None
    days = _days_of(int(date[:4]), int(date[5:7]), int(date[8:]))
    if days is None or hour > "23" or minute > "59" or whole > "60":
        return None
    seconds = days * SECONDS_PER_DAY + int(hour) * 3_600 + int(minute) * 60 + int(whole) - offset_s
    return seconds * 1_000 + int((fraction + "000")[:3])


def _days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a date; ``None`` when the calendar does not have it."""
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month]):
        return None
    if month == 2 and day == 29 and (year % 4 or (year % 100 == 0 and year % 400)):
        return None
    return days_from_civil(year, month, day)


def _split_offset(clock: str) -> tuple[str, int | None]:
    if clock[-1:] in ("Z", "z"):
        return clock[:-1], 0
    for sign in "+-":
        head, found, offset = clock.partition(sign)
        if found:
            digits = offset[:2] + offset[2:].removeprefix(":")
            if len(digits) not in (2, 4) or not digits.isdigit():
                return clock, None
            hours, minutes = int(digits[:2]), int(digits[2:] or "0")
            if hours > 23 or minutes > 59:
                return clock, None
            seconds = hours * 3_600 + minutes * 60
            return head, seconds if sign == "+" else -seconds
    return clock, 0


def duration_s(text: str) -> int | None:
    """Seconds of ``30s``, ``90m``, ``24h``, ``7d``, ``2w``; ``None`` when it is none of them."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS_S or not number.isdigit() or not number.isascii() or len(number) > 9:
        return None
    return int(number) * _UNITS_S[unit]


def is_past(now_ms: int, since: str, ttl: str) -> bool:
    """Whether ``ttl`` has run out since ``since``. What cannot be read never runs out."""
    since_ms, seconds = epoch_ms(since), duration_s(ttl)
    if since_ms is None or seconds is None:
        return False
    return now_ms > since_ms + seconds * 1_000


def age(now: str, then: str) -> str:
    """How long ago, in words: ``just now``, ``45 minutes ago``, ``3 days ago``."""
    now_ms, then_ms = epoch_ms(now), epoch_ms(then)
    if now_ms is None or then_ms is None:
        return "at an unknown time"
    seconds = (now_ms - then_ms) // 1_000
    if seconds < 0:
        return "in the future"
    for size, name in ((SECONDS_PER_DAY, "day"), (3_600, "hour"), (60, "minute")):
        count = seconds // size
        if count:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"

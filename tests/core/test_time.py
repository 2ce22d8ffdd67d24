"""Times as text and as numbers."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core import time as times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))
aware = st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31), timezones=offsets)  # noqa: DTZ001


def ms_of(then):
    return (then - EPOCH) // MILLISECOND


@given(st.integers(ms_of(datetime(1, 1, 1, tzinfo=UTC)), ms_of(datetime(9999, 12, 31, tzinfo=UTC))))
def test_milliseconds_and_text_are_the_same_both_ways(ms):
    text = times.iso(ms)
    assert datetime.fromisoformat(text) == EPOCH + ms * MILLISECOND
    assert times.epoch_ms(text) == ms


@given(aware, st.sampled_from("T t"), st.sampled_from(["auto", "minutes", "seconds"]))
def test_text_of_any_offset_is_the_same_instant(then, between, timespec):
    text = then.isoformat(between, timespec)
    assert times.epoch_ms(text) == ms_of(datetime.fromisoformat(text))


@given(st.text("0123456789-:.TZtz+ ", min_size=8, max_size=26))
@example("2026-02-30T00:00:00Z")
@example("2026-02-17T24:00:00Z")
@example("2026-02-17T12:00:00+24:00")
@example("2026-02-17T12:00:00+02:60")
@example("2026-02-17T")
@example("2026-02-17 ")
@example("2026-02-17T+02:00")
@example("2026-02-17T12")
@example("0000-01-01")
@example("2026-02-17T12:00:00.")
@example("2026-02-17T1:2:3")
@example("2026-02-17T12:00:00+0:200")
@example("2026-02-17T12:00:00-0230")
@example("2026-02-17T12:00:00-02")
def test_what_is_taken_is_a_time_to_datetime_too(text):
    found = times.epoch_ms(text)
    if found is not None and ":60" not in text:
        assert ms_of(taken(text)) == found


def taken(text):
    then = datetime.fromisoformat(text)
    return then if then.tzinfo else then.replace(tzinfo=UTC)


@given(st.text(max_size=50))
def test_whatever_is_no_time_is_none_and_no_exception(text):
    assert times.epoch_ms(text) is None or text[:4].isdigit()


@pytest.mark.parametrize(
    "text", ["", "2026", "yesterday", "2026-2-7", "\u0662026-02-17", "2026-02-17X"]
)
def test_no_time_is_none(text):
    assert times.epoch_ms(text) is None


def test_the_leap_second_that_clocks_write_is_the_next_one():
    assert times.epoch_ms("2016-12-31T23:59:60Z") == times.epoch_ms("2017-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("90m", 5_400),
        ("24h", 86_400),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("0s", 0),
        ("24H", 86_400),
        ("24 h", 86_400),
        ("1h30m", 5_400),
        ("1 Hour 30 mins", 5_400),
    ],
)
def test_durations(text, seconds):
    assert times.duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "24", "-1h", "1.5h", "1 2h", "1h30", "1month", "٣h", "²h", "9" * 10 + "s"]
)
def test_what_is_no_duration_is_none(text):
    assert times.duration_s(text) is None


@given(aware, st.integers(-(10**6), 10**6), st.integers(0, 10**5))
def test_a_time_to_live_runs_out_when_datetime_says_so(since, passed_s, ttl_s):
    now = since + timedelta(seconds=passed_s)
    is_past = times.is_past(ms_of(now), since.isoformat(), f"{ttl_s}s")
    assert is_past == (ms_of(now) > ms_of(since) + ttl_s * 1_000)


@pytest.mark.parametrize(
    "wrong",
    [(10**13, "?", "1s"), (10**13, "2020-01-01", "soon")],
)
def test_what_cannot_be_read_never_runs_out(wrong):
    assert not times.is_past(*wrong)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "in the future"),
        (0, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (3_599, "59 minutes ago"),
        (3_600, "1 hour ago"),
        (86_399, "23 hours ago"),
        (86_400, "1 day ago"),
        (700_000, "8 days ago"),
    ],
)
def test_ages_in_words(seconds, words):
    now = 1_771_329_600_000
    assert times.age(times.iso(now), times.iso(now - seconds * 1_000)) == words


def test_the_age_of_what_is_no_time_is_unknown():
    assert times.age("2026-02-17", "once") == "at an unknown time"

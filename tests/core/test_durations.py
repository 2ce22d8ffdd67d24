"""How long phases and tasks took, from the recorded times and a clock that is set by hand."""

import pytest

from holdfast.core.durations import duration_ms, span
from holdfast.core.time import epoch_ms
from holdfast.core.workflow import blank

BEGIN, END = "2026-01-02T03:00:00.000Z", "2026-01-02T03:05:30.000Z"
NOW = epoch_ms("2026-01-02T04:00:00.000Z")
HOUR, TOOK = 3_600_000, 330_000
RECIPE = {"name": "dev", "format": "skill", "phases": [{"name": "plan"}]}


def a_state(**fields):
    return {**blank("dev-1", RECIPE, BEGIN), **fields}


@pytest.mark.parametrize(
    ("item", "ms"),
    [
        ({"status": "in_progress", "started_at": BEGIN}, HOUR),
        ({"status": "blocked", "started_at": BEGIN}, HOUR),
        ({"status": "completed", "started_at": BEGIN, "completed_at": END}, TOOK),
        ({"status": "completed", "completed_at": END}, None),
        ({"status": "completed", "started_at": BEGIN}, None),
        ({"status": "completed", "started_at": END, "completed_at": BEGIN}, None),
        ({"status": "pending"}, None),
        ({"status": "skipped", "started_at": BEGIN}, None),
        ({"status": "in_progress", "started_at": "2027-01-01T00:00:00.000Z"}, None),
        ({"status": "in_progress", "started_at": "yesterday, I think"}, None),
        ({"status": "in_progress", "started_at": None}, None),
    ],
)
def test_a_phase_or_task_takes_from_its_begin_to_its_end_or_until_now(item, ms):
    assert duration_ms(a_state(), item, NOW) == ms


def test_nothing_goes_on_after_the_end_of_the_workflow():
    item = {"status": "in_progress", "started_at": BEGIN}
    assert duration_ms(a_state(status="completed", completed_at=END), item, NOW) == TOOK
    assert duration_ms(a_state(status="abandoned", updated_at=END), item, NOW) == TOOK


def test_a_span_is_said_in_its_two_largest_units():
    minute = 60_000
    spans = [None, 0, 59_999, minute, 59 * minute, 60 * minute, 125 * minute, 1440 * minute]
    assert [span(ms) for ms in [*spans, 4 * 1440 * minute + 125 * minute]] == [
        "", "<1 min", "<1 min", "1 min", "59 min", "1 h", "2 h 5 min", "1 d", "4 d 2 h",
    ]  # fmt: skip

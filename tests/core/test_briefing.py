"""The briefing of workflows without measure: it is cut, and in no time."""

from time import process_time

from holdfast.core.briefing import MAX_BYTES, briefing, quoted
from holdfast.core.workflow import blank

AT = "2026-01-01T00:00:00.000Z"
MANY = 40_000
BOUND_S = 10
"""A client waits for so long. It takes a twentieth of that, and took minutes."""


def test_a_workflow_with_endless_lists_is_briefed_in_time():
    state = blank("huge", {"name": "custom", "format": "formal", "phases": []}, AT)
    state["required_reading"] = [f"@docs/{number}.md" for number in range(MANY)]
    state["reminders"] = [f"Reminder {number}" for number in range(MANY)]
    state["context"] = {f"key {number}": number for number in range(MANY)}
    before = process_time()
    text = briefing(state, AT)
    assert process_time() - before < BOUND_S
    assert len(text.encode()) <= MAX_BYTES
    assert "@docs/0.md" in text
    left_out = 3 * MANY - text.count("@docs/") - text.count("- ")
    assert f"({left_out} lines were left out; all of it: holdfast show huge)" in text


def test_a_text_without_end_is_not_read_to_its_end():
    before = process_time()
    assert len(quoted("x" * 50_000_000)) == 300
    assert process_time() - before < 1
    assert quoted("short" + " " * 50_000_000 + "hidden") == "short…"

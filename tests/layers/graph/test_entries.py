"""What the graph tells can be read back into the logs that it came from."""

import pytest

from holdfast.layers.graph import entries, projection

AT = "2026-02-17T12:00:00.000Z"
EVENTS = [
    ("delegation_recorded", "delegation", "entries", {
        "agent": "scout (a)", "model": "small", "task_type": "tests", "complexity": "low",
        "outcome": "success -> ok", "duration_ms": 90,
    }),
    ("delegation_recorded", "delegation", "entries", {"agent": "scout", "outcome": "ok"}),
    ("delegation_overridden", "delegation", "entries", {
        "kind": "override", "suggested": "a", "chosen": "b",
    }),
    ("routing_corrected", "delegation", "entries", {
        "kind": "routing", "suggested": "a", "chosen": "b", "intent": "fix",
    }),
    ("escalation_resolved", "delegation", "entries", {
        "kind": "outcome", "from": "a", "to": "b", "reason": "two, at once", "resolved": False,
    }),
    ("interview_skipped", "interview", "skips", {"skill": "fix", "reason": "in a hurry"}),
    ("interview_recorded", "interview", "interviews", {
        "skill": "plan", "confidence": 0.8, "dimensions": {"a": 0.5}, "questions_asked": 0,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("event", "log", "name", "entry"), EVENTS)
def test_an_entry_of_each_kind_comes_back_as_it_was(event, log, name, entry):
    data = {key: value for key, value in entry.items() if key != "kind"}
    updates = projection.event_updates({"type": event, "at": AT, "data": data})
    (read,) = entries.read_entries(updates)[log][name]
    has_time = event != "delegation_overridden"
    assert read == ({**entry, "timestamp": AT} if has_time else entry)


@pytest.mark.parametrize(
    "text",
    [
        "", "delegation:", "delegation: a", "escalated: a -> b", "user_override: suggested a",
        "interview_skip: x", "\x1b[31m", "d" * 3_000,
    ],
)  # fmt: skip
def test_what_reads_like_none_of_them_is_left_out(text):
    entity = {"name": "delegation-log", "entityType": "x", "observations": [text]}
    found = entries.read_entries([entity])
    assert not any(rows for lists in found.values() for rows in lists.values())


def test_only_what_is_missing_is_added_and_before_the_own_entries():
    state = {"entries": [{"key": "build", "text": "make", "timestamp": AT}], "extra": {}}
    found = {"entries": [{"key": "build", "text": "make"}, {"key": "test", "text": "pytest"}]}
    after = entries.with_entries(state, found)
    assert [entry["key"] for entry in after["entries"]] == ["test", "build"]
    assert entries.with_entries(after, found) == after

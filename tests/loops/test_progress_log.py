"""The log: every event has its entry, nothing earlier is touched, and what changed is noticed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.loops.progress_log import (
    EVENT_TYPES,
    HEADER,
    LogComparison,
    read_entries,
    render_entry,
    without_cut_entries,
)
from loops import walks

AT = "2026-01-14T10:30:00.000Z"


def event(kind, at=AT, **data):
    return {"type": kind, "at": at, "data": data}


FIRST = event("iteration_recorded", task="T1", iteration=1, did="Added the model",
              remaining="The migration", commit="abc1234")  # fmt: skip
SECOND = event("iteration_recorded", "2026-01-14T10:50:00.000Z", task="T1", iteration=2,
               did="Wrote the migration", signal="T1_DONE", commit="def5678")  # fmt: skip
CONFIRMED = event("confirmation_recorded", "2026-01-14T11:00:00.000Z", task="T1", clean=True)
VERIFIED = event("verification_recorded", "2026-01-14T11:15:00.000Z", task="T1", clean=True,
                 evidence={"command": "make test", "exit_code": 0})  # fmt: skip
EVENTS = [event("workflow_started"), FIRST, SECOND, CONFIRMED, VERIFIED]

LOG = """\
# Progress Log

## T1 - Iteration 1 - 2026-01-14T10:30:00.000Z
**Did:** Added the model
**Remaining:** The migration
**Blockers:** None
**Commit:** abc1234

## T1 - Iteration 2 - 2026-01-14T10:50:00.000Z
**Did:** Wrote the migration
**Remaining:** None
**Blockers:** None
**Signal:** T1_DONE
**Commit:** def5678

## T1 - Confirmation - 2026-01-14T11:00:00.000Z
**Result:** Clean

## T1 - Verification - 2026-01-14T11:15:00.000Z
**Result:** Passed
**Command:** make test
**Exit code:** 0
"""


def test_a_log_looks_like_this():
    assert LogComparison("", EVENTS).addition() == LOG
    assert LogComparison(HEADER, EVENTS).addition() == LOG.removeprefix("# Progress Log\n")


def test_a_whole_log_needs_nothing():
    assert LogComparison(LOG, EVENTS).addition() == ""
    assert LogComparison(LOG, EVENTS).changed == []


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (event("task_timed_out", task="T1", iteration=6, did="no", remaining="all"),
         "## T1 - Timeout - {}\n**Did:** no\n**Remaining:** all\n**Blockers:** None\n"),
        (event("confirmation_recorded", task="T1", clean=False, found="a typo"),
         "## T1 - Confirmation - {}\n**Result:** Issues found\n**Found:** a typo\n"),
        (event("task_blocked", task="R2", reason="no access"),
         "## R2 - Blocked - {}\n**Reason:** no access\n"),
        (event("task_unblocked", task="R2"), "## R2 - Unblocked - {}\n"),
        (event("task_extended", task="R2", max_iterations=8),
         "## R2 - Extended - {}\n**Max iterations:** 8\n"),
        (event("workflow_archived", record="a/b.json"), "## Archived - {}\n**Record:** a/b.json\n"),
        (event("workflow_abandoned"), "## Abandoned - {}\n"),
    ],
)  # fmt: skip
def test_each_event_has_its_entry(told, expected):
    assert render_entry(told) == expected.format(AT)


def test_events_that_say_nothing_of_units_are_not_told():
    assert render_entry(event("context_set", values={})) is None
    assert render_entry(event("iteration_recorded")) is None


def test_entries_are_read():
    found = read_entries(LOG)
    assert [(one.kind, one.task, one.number, one.line) for one in found] == [
        ("iteration", "T1", 1, 3),
        ("iteration", "T1", 2, 9),
        ("confirmation", "T1", None, 16),
        ("verification", "T1", None, 19),
    ]
    assert found[1].at == "2026-01-14T10:50:00.000Z"
    assert found[1].fields == {
        "did": "Wrote the migration", "remaining": None, "blockers": None, "signal": "T1_DONE",
        "commit": "def5678",
    }  # fmt: skip
    assert "".join(one.raw for one in found) == LOG.removeprefix("# Progress Log\n\n")


@pytest.mark.parametrize(
    "hidden",
    [
        "```\n{}```\n",
        "~~~\n{}\n~~~\n",
        "<!--\n{}-->\n",
        "> {}",
        "- {}",
        "    {}",
        "#{}",
    ],
)
def test_what_only_looks_like_an_entry_is_none(hidden):
    body = render_entry(FIRST)
    indented = "> " if hidden.startswith(">") else "    " if hidden[0] in " -" else ""
    body = body.replace("\n", "\n" + indented).removesuffix(indented)
    text = "# Progress Log\n\n" + hidden.format(body)
    assert read_entries(text) == []
    assert LogComparison(text, [FIRST]).addition().endswith(render_entry(FIRST))


@given(walks.walks, st.sampled_from([0, 1_000]))
def test_every_entry_says_what_its_event_said(steps, tick):
    events = walks.walked(steps, tick=tick).events
    text = LogComparison("", events).addition()
    told = [one for one in events if render_entry(one)]
    assert len(read_entries(text)) == len(told)
    for one, said in zip(read_entries(text), told, strict=True):
        data = {key: value for key, value in said["data"].items() if key != "evidence"}
        for key in set(data) & {"did", "signal", "commit", "found", "reason"}:
            assert one.fields[key] == data[key]
        for key in set(data) & {"remaining", "blockers"}:
            assert one.fields[key] == (None if data[key] == "None" else data[key])
        assert (one.task, one.at) == (data["task"], said["at"])
        assert one.number == data.get("iteration") or one.kind == "timeout"
    assert LogComparison(text, events).addition() == ""
    assert LogComparison(text, events).changed == []


@settings(max_examples=60)
@given(walks.walks, st.data())
def test_a_log_cut_off_anywhere_becomes_whole_by_appending(steps, data):
    events = walks.walked(steps).events
    text = LogComparison("", events).addition()
    cut = text[: data.draw(st.integers(0, len(text)))]
    whole = cut + LogComparison(cut, events).addition()
    assert LogComparison(whole, events).addition() == ""
    assert LogComparison(whole, events).changed == []
    kept = without_cut_entries(read_entries(whole))
    assert [one.fields for one in kept] == [one.fields for one in read_entries(text)]


def test_every_cut_of_a_log_is_made_good_in_bytes_too():
    for end in range(len(LOG.encode())):
        cut = LOG.encode()[:end].decode(errors="replace")
        whole = cut + LogComparison(cut, EVENTS).addition()
        assert LogComparison(whole, EVENTS).addition() == ""
        assert LogComparison(whole, EVENTS).changed == []


def test_an_entry_cut_off_at_the_end_is_written_again_whole():
    cut = LOG[: LOG.index("Command")]
    assert LogComparison(cut, EVENTS).addition() == "\n\n" + render_entry(VERIFIED)


def test_an_entry_that_only_lacks_its_newline_is_whole():
    assert LogComparison(LOG.removesuffix("\n"), EVENTS).addition() == ""
    later = event("task_unblocked", task="T2")
    assert LogComparison(LOG.removesuffix("\n"), [later]).addition() == "\n\n" + render_entry(later)


def test_a_log_keeps_its_line_ends():
    theirs = LOG.replace("\n", "\r\n")
    assert LogComparison(theirs, EVENTS).addition() == ""
    assert LogComparison(theirs, EVENTS).changed == []
    later = event("task_unblocked", task="T2")
    assert "\n" not in LogComparison(theirs, [*EVENTS, later]).addition().replace("\r\n", "")


@pytest.mark.parametrize("note", ["```\nopen", "<!-- open", "- list\n  ```", "> quote", "text"])
def test_what_somebody_left_open_does_not_hide_what_is_appended(note):
    text = f"{LOG}\n{note}"
    later = event("task_unblocked", task="T2")
    after = text + LogComparison(text, [*EVENTS, later]).addition()
    assert after.startswith(text)
    assert read_entries(after)[-1].kind == "unblocked"
    assert LogComparison(after, [*EVENTS, later]).addition() == ""


def test_a_changed_entry_is_noticed_and_stays():
    text = LOG.replace("Added the model", "Added two models").replace("**Signal:** T1_DONE\n", "")
    assert LogComparison(text, EVENTS).addition() == ""
    assert LogComparison(text, EVENTS).changed == [
        "T1 - Iteration 1 - 2026-01-14T10:30:00.000Z",
        "T1 - Iteration 2 - 2026-01-14T10:50:00.000Z",
    ]


def test_a_signal_that_somebody_adds_is_a_change():
    text = LOG.replace("**Commit:** abc1234", "**Commit:** abc1234\n\n**Signal:** T1_DONE")
    assert LogComparison(text, EVENTS).changed == ["T1 - Iteration 1 - 2026-01-14T10:30:00.000Z"]


@pytest.mark.parametrize("note", ["A note.", "### Aside\n**Did:** no", "## Notes\n\ntext", "---"])
def test_a_note_below_an_entry_is_no_change(note):
    text = LOG.replace("abc1234\n", f"abc1234\n\n{note}\n")
    assert LogComparison(text, EVENTS).changed == []
    assert LogComparison(text, EVENTS).addition() == ""


def test_other_blank_lines_are_no_change():
    text = LOG.replace("Z\n**", "Z\n\n**").replace("\n**Rem", "\n\n**Rem")
    assert LogComparison(text, EVENTS).changed == []


def test_entries_that_were_lost_in_the_middle_are_appended():
    first, second = LOG.index("## T1 - Iteration 2"), LOG.index("## T1 - Confirmation")
    text = LOG[:first] + LOG[second:]
    assert LogComparison(text, EVENTS).addition() == "\n" + render_entry(SECOND)


def test_two_events_that_read_alike_have_two_entries():
    twice = [event("task_extended", task="T1", max_iterations=8)] * 2
    text = LogComparison("", twice).addition()
    assert len(read_entries(text)) == 2
    assert LogComparison(text, twice).addition() == ""
    assert LogComparison(LogComparison("", twice[:1]).addition(), twice).addition() != ""


_nonsense = st.none() | st.integers() | walks.texts | st.lists(st.integers())
_fields = st.sampled_from(["task", "iteration", "did", "clean", "evidence"])


@given(
    st.dictionaries(_fields, _nonsense),
    st.sampled_from([*EVENT_TYPES.values()]),
    walks.texts,
)
def test_an_event_that_makes_no_sense_raises_nothing(data, kind, at):
    told = {"type": kind, "at": at, "data": data}
    text = LogComparison("", [told]).addition()
    assert LogComparison(text, [told]).addition() == ""
    assert len(read_entries(text)) == bool(text)


def test_the_last_entry_is_the_end_of_what_is_added():
    loop = walks.Loop().planned("T1").finished("T1")
    for text in ("", "# Progress Log\r\n"):
        compared = LogComparison(text, loop.events)
        _, entry = compared.newest_missing()
        assert compared.addition().endswith(entry)

"""A loop's record from its pages alone: what the core led to, or in words where they disagree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.workflow.tasks import limit_of
from holdfast.formats import loop as record
from holdfast.loops import pages, progress_log
from holdfast.loops.rebuild import rebuild_record
from holdfast.workspace import recipes
from loops import walks

pytestmark = pytest.mark.promise(8)


def pages_of(loop):
    return {
        "brief": pages.render_brief(loop.state),
        "units": pages.render_units(loop.state),
        "progress": progress_log.LogComparison("", loop.events).addition(),
        "guardrails": pages.render_guardrails(loop.state),
    }


def rebuilt_of(loop, mode="development", find_subject=lambda _: "", **changed):
    return rebuild_record(
        **{**pages_of(loop), **changed}, slug="try", mode=mode, find_subject=find_subject
    )


def parsed(document):
    """The state that a record's own parser makes of the document."""
    origin = {"at": "2026-02-17T12:00:00Z", "path": ".claude/iterative/try/state.json",
              "worktree": ".", "recipe": recipes.load}  # fmt: skip
    return record.parse(document, {}, origin)


def as_shown(task):
    """A unit without what no page shows: the command that verifies it, and "None" for nothing."""
    said = {
        key: value for key, value in task.items() if key != "verify" and value not in ([], None)
    }
    said = {key: value for key, value in said.items() if value != "None" or key == "reason"}
    return {**said, "max_iterations": limit_of(task)}


@settings(max_examples=200)
@given(walks.walks, st.sampled_from(walks.MODES), st.sampled_from([0, 1_000]))
def test_any_walk_is_rebuilt_from_its_pages(steps, mode, tick):
    loop = walks.walked(steps, mode, tick)
    document, notes = rebuilt_of(loop, mode)
    state = parsed(document)
    assert notes == []
    assert [as_shown(task) for task in state["tasks"]] == [as_shown(t) for t in loop.state["tasks"]]
    assert state.get("current_task") == loop.state.get("current_task")
    assert state["commits"] == loop.state["commits"]
    assert state["phase"] == loop.state["phase"]
    assert (state["title"], state["subject"]) == ("Try it", "try")
    assert state["created_at"] == loop.state["created_at"]


@settings(max_examples=60)
@given(walks.walks, st.data())
def test_a_log_that_was_cut_and_made_whole_gives_the_same(steps, data):
    loop = walks.walked(steps)
    whole = pages_of(loop)["progress"]
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    mended = cut + progress_log.LogComparison(cut, loop.events).addition()
    assert rebuilt_of(loop, progress=mended)[0] == rebuilt_of(loop)[0]


def test_a_document_looks_like_this():
    loop = walks.Loop(context={"domain": "feature"}).planned("T1").planned("T2", depends=["T1"])
    loop.do("record_iteration", task="T1", did="Added it", signal="T1_DONE", commit="abc1234")
    loop.do("confirm_unit", task="T1")
    loop.do("verify_unit", task="T1")
    loop.do("block_task", task="T2", reason="no key")
    document, notes = rebuilt_of(loop)
    assert notes == []
    assert document == {
        "task": "Try it",
        "slug": "try",
        "mode": "development",
        "domain": "feature",
        "created": "2026-02-17T12:00:01.000Z",
        "updated": "2026-02-17T12:00:07.000Z",
        "phase": "execute",
        "current_task": "T1",
        "current_iteration": 1,
        "tasks": {
            "T1": {
                "description": "Unit T1",
                "status": "done",
                "max_iterations": 5,
                "started_at": "2026-02-17T12:00:04.000Z",
                "iterations_used": 1,
                "confirmations_used": 1,
                "verification_passed": True,
                "completed_at": "2026-02-17T12:00:06.000Z",
            },
            "T2": {
                "description": "Unit T2",
                "status": "blocked",
                "depends": ["T1"],
                "max_iterations": 5,
                "reason": "no key",
            },
        },
        "commits": ["abc1234: Added it"],
    }


def one_done():
    return walks.Loop().planned("T1").finished("T1")


def log(*entries_):
    return "# Progress Log\n\n" + "\n".join(f"## {one}\n" for one in entries_)


AT = "2026-02-17T12:00:09.000Z"
WORK = f"T1 - Iteration 1 - {AT}\n**Did:** x\n**Signal:** T1_DONE"
CONFIRM = f"T1 - Confirmation - {AT}\n**Result:** Clean"
VERIFY = f"T1 - Verification - {AT}\n**Result:** Passed"


@pytest.mark.parametrize(
    ("lines", "status", "note"),
    [
        ([CONFIRM], "pending", "line 3: T1 - Confirmation - {}: out of order: T1 was pending"),
        ([WORK, VERIFY], "confirming", "line 7: T1 - Verification - {}: out of order"),
        ([WORK, WORK], "confirming", "line 7: T1 - Iteration 1 - {}: out of order"),
        ([WORK.replace("n 1", "n 4")], "confirming", "line 3: T1 - Iteration 4 - {}: out of order"),
        ([WORK, CONFIRM.partition("\n")[0]], "confirming", "without a result (Clean, or"),
        ([WORK.replace("T1_DONE", "T2_DONE")], "in_progress", "'T2_DONE' is not the signal of T1"),
        ([WORK + "\n**Commit:** abc1234"], "confirming", "git has no commit 'abc1234'"),
        ([WORK + "\n**Commit:** --all"], "confirming", "git has no commit '--all'"),
        ([WORK, f"T7 - Blocked - {AT}"], "confirming", "T7 is not planned in tasks.md"),
        ([WORK, f"Setup - Blocked - {AT}"], "confirming", "'Setup' is not a unit"),
        ([WORK.replace(AT, "yesterday")], "confirming", "'yesterday' is not a time"),
        ([WORK, f"T1 - Unblocked - {AT}"], "confirming", "out of order: T1 was confirming"),
    ],
)  # fmt: skip
def test_where_the_log_makes_no_sense_it_is_said(lines, status, note):
    loop = walks.Loop().planned("T1")
    document, notes = rebuilt_of(loop, progress=log(*lines), find_subject=lambda _: None)
    assert document["tasks"]["T1"]["status"] == status
    assert any(note.format(AT) in one for one in notes)
    parsed(document)


def test_a_signal_may_be_written_with_its_tags():
    text = log(WORK.replace("T1_DONE", "`<signal>T1_DONE</signal>`"))
    document, notes = rebuilt_of(walks.Loop().planned("T1"), progress=text)
    assert (document["tasks"]["T1"]["status"], notes) == ("confirming", [])


def test_a_commit_that_git_does_not_have_is_left_out():
    loop = walks.Loop().planned("T1")
    for commit in ("aaaaaaa", "bbbbbbb"):
        loop.do("record_iteration", task="T1", did="x", remaining="y", commit=commit)
    document, notes = rebuilt_of(
        loop, find_subject=lambda commit: "" if commit == "bbbbbbb" else None
    )
    assert document["commits"] == ["bbbbbbb: x"]
    assert len(notes) == 1


def test_a_box_that_says_something_else_than_the_log_is_said():
    page = pages.render_units(one_done().state)
    document, notes = rebuilt_of(one_done(), units=page.replace("[x]", "[ ]"))
    assert document["tasks"]["T1"]["status"] == "done"
    assert notes == ["tasks.md shows T1 as not done; the log does say that it was verified"]
    document, notes = rebuilt_of(one_done(), progress="")
    assert document["tasks"]["T1"]["status"] == "pending"
    assert notes == ["tasks.md shows T1 as done; the log does not say that it was verified"]


def test_without_its_page_the_units_of_the_log_are_there():
    document, notes = rebuilt_of(one_done(), units="")
    assert document["tasks"]["T1"]["status"] == "done"
    assert len(notes) == 1
    assert "T1 is not planned" in notes[0]


def test_a_lesson_of_a_unit_that_is_none_is_said():
    text = "## Slow\n- **When**: always\n- **Learned**: T9 iteration 2\n"
    _, notes = rebuilt_of(one_done(), guardrails=text)
    assert notes == ["guardrails.md: 'Slow' was learned in T9, which is not a unit"]


def test_complaints_of_the_page_and_another_mode_are_said():
    page = pages.render_units(one_done().state).replace("Max iterations: 5", "Max iterations: x")
    _, notes = rebuilt_of(one_done(), "knowledge", units=page)
    assert "plan.md: line" in notes[0]
    assert "brief.md says that the mode is 'development'" in notes[1]


@pytest.mark.parametrize(
    ("command", "phase"),
    [
        (("complete_workflow", {"force": True, "reason": "x"}), "complete"),
        (("abandon_workflow", {"reason": "x"}), "deliver"),
    ],
)
def test_how_it_ended_is_told(command, phase):
    loop = one_done()
    assert loop.do(command[0], **command[1]) is None
    loop.do("archive_loop", record="archive/try/state.json")
    assert rebuilt_of(loop)[0]["phase"] == phase


def test_nothing_gives_an_empty_loop():
    document, notes = rebuild_record("", "", "", "", "try", "development", lambda _: "")
    assert document == {
        "task": "try", "slug": "try", "mode": "development", "phase": "discover", "tasks": {},
        "commits": [],
    }  # fmt: skip
    assert notes == []
    assert parsed(document)["tasks"] == []


pieces = st.sampled_from(
    [
        *(WORK, CONFIRM, VERIFY, "x", "R1 - Iteration 999999999 - x", f"T9 - Extended - {AT}"),
        *(f"T1 - Timeout - {AT}\n**Did:**", f"T1 - Blocked - {AT}", f"T1 - Extended - {AT}"),
    ]
)


@given(*[walks.texts] * 3, st.lists(pieces))
def test_a_record_comes_out_of_anything(brief, units, guardrails, lines):
    document, notes = rebuild_record(
        brief, units, log(*lines), guardrails, "try", "knowledge", lambda _: ""
    )
    assert parsed(document)["subject"] == "try"
    assert all(isinstance(note, str) for note in notes)

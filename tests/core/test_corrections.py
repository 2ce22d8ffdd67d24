"""Mistakes can be mended, in the pure core: each correction is one event, and undo gives back."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import workflow
from holdfast.core.refusal import Refusal
from holdfast.core.workflow import find_task, is_active
from holdfast.formats import aggregate_of
from holdfast.workspace import recipes
from support.strategies import origin_of

AT = "2026-02-17T12:00:00.000Z"
RECORDS = {
    "verb": ".claude/workflow-state.json",
    "formal": "untracked/workflow-state/try/state-try-20260217_120000.json",
    "skill": ".claude/workflow-state/active/try.json",
    "loop": ".claude/iterative/try/state.json",
}
RECIPES = ("dev", "tdd", "apex", "planning", "loop-development")
NO_LOOPS = RECIPES[:4]
ADA, BOB = {"session": "ada"}, {"session": "bob"}


class Desk:
    """A workflow that lives in memory, and the requests that made it."""

    def __init__(self, recipe="dev", tasks=("one", "two", "three"), **args):
        self.requests = []
        self.state = None
        loaded = recipes.load(recipe)
        args = {"recipe": loaded, "subject": "try", "title": "try", "worktree": ".", **args}
        tasks = [] if loaded["format"] == "loop" else list(tasks)
        record = RECORDS[loaded["format"]]
        assert (
            self.do(
                "start_workflow", record=record, tasks=[{"text": text} for text in tasks], **args
            )
            is None
        )

    @property
    def events(self):
        return [event for _, events in self.requests for event in events]

    def do(self, kind, *, by=ADA, **args):
        """Return the refusal, or record the events and return ``None``."""
        outcome = workflow.decide(self.state, {"type": kind, "at": AT, "args": args})
        if isinstance(outcome, Refusal):
            return outcome
        before, events, seq = self.state, [], len(self.events)
        for number, draft in enumerate(outcome, 1):
            event = {"seq": seq + number, "at": AT, "stream": "try", "by": by, **draft}
            self.state = workflow.evolve(self.state, event)
            events.append(event)
        self.requests.append((before, events))
        return None

    def undo(self, nth=-1):
        """Undo a request, as the keeper asks for it."""
        before, events = self.requests[nth]
        later = [event for event in self.events if event["seq"] > events[-1]["seq"]]
        return self.do("undo_change", before=before, events=events, later=later)

    def task(self, number):
        return find_task(self.state, number)

    def ids(self):
        return [task["id"] for task in self.state["tasks"]]

    def last(self):
        return self.events[-1]["type"]


def assert_is_kept_by_its_record(state):
    rendering = aggregate_of("try").record_format(state)
    document, rest = json.loads(json.dumps(rendering.render(state)))
    assert rendering.parse(document, rest, origin_of(state)) == state


each_recipe = pytest.mark.parametrize("recipe", NO_LOOPS)


@each_recipe
def test_every_correction_is_one_event_and_comes_back_from_the_record(recipe):
    desk = Desk(recipe, reminders=["a", "b"], required_reading=["@x"], context={"k": 1, "l": 2})
    desk.do("complete_task", task=1, commit="abc")
    desk.do("block_task", task=2, reason="why")
    corrections = [
        ("edit_task", {"task": 2, "description": "TWO"}, "task_edited"),
        ("unblock_task", {"task": 2}, "task_unblocked"),
        ("complete_task", {"task": 1, "commit": "def"}, "task_commit_added"),
        ("move_task", {"task": 3, "before": 1}, "task_moved"),
        ("reopen_task", {"task": 1}, "task_reopened"),
        ("remove_task", {"task": 3}, "task_removed"),
        ("remove_reminder", {"reminder": 1}, "reminder_removed"),
        ("remove_reading", {"path": "@x"}, "reading_removed"),
        ("unset_context", {"keys": ["k"]}, "context_unset"),
        ("rename_workflow", {"title": "Another"}, "workflow_renamed"),
    ]
    for kind, args, event_type in corrections:
        count = len(desk.events)
        assert desk.do(kind, **args) is None
        assert (len(desk.events), desk.last()) == (count + 1, event_type)
        assert desk.state["history"][-1]["event"] == event_type
        assert_is_kept_by_its_record(desk.state)
    assert [task["description"] for task in desk.state["tasks"]] == ["one", "TWO"]
    assert (desk.state["reminders"], desk.state["required_reading"]) == (["b"], [])
    assert (desk.state["title"], "k" in desk.state["context"]) == ("Another", False)


def test_an_edit_changes_the_text_and_nothing_else():
    desk = Desk()
    desk.do("start_task", task=2)
    before = desk.task(2)
    desk.do("edit_task", task=2, description="TWO")
    assert desk.task(2) == {**before, "description": "TWO"}
    assert desk.do("edit_task", task=2, description="TWO").code == "already"
    assert desk.do("edit_task", task=2, description=" ").code == "invalid"
    assert desk.do("edit_task", task=9, description="x").code == "not_found"


def test_a_removed_task_gives_its_number_to_nobody():
    desk = Desk()
    desk.do("remove_task", task=3)
    desk.do("add_tasks", tasks=[{"text": "four"}])
    assert desk.ids() == [1, 2, 4]
    desk.do("remove_task", task=4)
    desk.do("remove_task", task=2)
    desk.do("add_tasks", tasks=[{"text": "five"}])
    assert desk.ids() == [1, 5]


def test_a_new_feature_of_the_folder_counts_its_tasks_from_one():
    context = {"folder_mode": True, "folder_features": ["a.md", "b.md"], "feature_file": "a.md"}
    desk = Desk(context={**context, "folder_done": []})
    desk.do("remove_task", task=3)
    desk.do("complete_workflow", force=True, reason="x", next_title="B")
    desk.do("add_tasks", tasks=[{"text": "first"}])
    assert (desk.state["context"]["feature_file"], desk.ids()) == ("b.md", [1])


def test_a_task_that_others_depend_on_is_not_removed():
    desk = Desk()
    desk.do("add_tasks", tasks=[{"text": "four", "depends": [1]}])
    desk.do("add_tasks", tasks=[{"text": "five", "depends": ["1"]}])
    refusal = desk.do("remove_task", task=1)
    assert (refusal.code, refusal.hint) == ("wrong_order", "holdfast task remove 4")
    assert "is what 4, 5 depends on" in refusal.message


def test_removing_the_current_task_leaves_none_current():
    desk = Desk()
    desk.do("start_task", task=2)
    desk.do("remove_task", task=1)
    assert desk.state["current_task"] == 2
    desk.do("remove_task", task=2)
    assert desk.state["current_task"] is None


def test_a_reopened_task_is_pending_and_its_commit_stays_in_the_history():
    desk = Desk()
    desk.do("start_task_phase", task=1, phase="green")
    desk.do("complete_task", task=1, commit="abc")
    desk.do("reopen_task", task=1)
    assert desk.task(1) == {"id": 1, "description": "one", "status": "pending"}
    assert desk.state["history"][-1]["commit"] == "abc"
    assert desk.do("start_task", task=1) is None


@pytest.mark.parametrize(
    ("kind", "args", "hint"),
    [
        (None, {}, "holdfast task start 1"),
        ("start_task", {"task": 1}, "holdfast show try"),
        ("block_task", {"task": 1, "reason": "x"}, "holdfast task unblock 1"),
    ],
)
def test_a_task_that_is_not_done_is_not_reopened(kind, args, hint):
    desk = Desk()
    if kind:
        desk.do(kind, **args)
    refusal = desk.do("reopen_task", task=1)
    assert (refusal.code, refusal.hint) == ("already", hint)


@pytest.mark.parametrize(
    ("args", "order"),
    [
        ({"task": 3, "before": 1}, [3, 1, 2]),
        ({"task": 3, "before": "2"}, [1, 3, 2]),
        ({"task": 1, "after": 2}, [2, 1, 3]),
        ({"task": 1, "after": 3}, [2, 3, 1]),
        ({"task": 3, "after": 1}, [1, 3, 2]),
        ({"task": 1, "to": 3}, [2, 3, 1]),
        ({"task": 3, "to": 1}, [3, 1, 2]),
    ],
)
def test_a_move_changes_the_order_alone(args, order):
    desk = Desk()
    before = {task["id"]: task for task in desk.state["tasks"]}
    assert desk.do("move_task", **args) is None
    assert desk.ids() == order
    assert {task["id"]: task for task in desk.state["tasks"]} == before


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"task": 1}, "invalid"),
        ({"task": 1, "before": 2, "to": 3}, "invalid"),
        ({"task": 1, "before": 1}, "invalid"),
        ({"task": 1, "to": 4}, "invalid"),
        ({"task": 1, "before": 9}, "not_found"),
        ({"task": 9, "before": 1}, "not_found"),
        ({"task": 1, "before": 2}, "already"),
        ({"task": 3, "to": 3}, "already"),
    ],
)
def test_a_move_without_a_place_is_refused(args, code):
    refusal = Desk().do("move_task", **args)
    assert (refusal.code, refusal.hint.startswith("holdfast ")) == (code, True)


def test_an_unblocked_task_goes_on_where_it_stood():
    desk = Desk()
    desk.do("block_task", task=1, reason="x")
    assert desk.do("start_task_phase", task=2, phase="red") is None
    desk.do("block_task", task=2, reason="x")
    desk.do("unblock_task", task=1)
    desk.do("unblock_task", task=2)
    assert [desk.task(number)["status"] for number in (1, 2)] == ["pending", "in_progress"]
    assert "reason" not in desk.task(1)
    assert desk.task(2)["phases"]["red"] == "in_progress"
    assert desk.do("unblock_task", task=1).hint == "holdfast task start 1"
    assert desk.do("unblock_task", task=2).code == "not_blocked"


def test_a_task_that_is_done_gets_another_commit():
    desk = Desk()
    desk.do("complete_task", task=1)
    desk.do("complete_task", task=1, commit="a")
    assert (desk.task(1)["commit"], desk.task(1).get("commits")) == ("a", None)
    desk.do("complete_task", task=1, commit="b")
    assert (desk.task(1)["commit"], desk.task(1)["commits"]) == ("b", ["a", "b"])
    assert desk.do("complete_task", task=1, commit="a").code == "already"
    assert desk.do("complete_task", task=1).code == "already"
    assert desk.do("complete_task", task=1, commit=" ").code == "invalid"


def test_notes_that_are_not_there_are_not_removed():
    desk = Desk(reminders=["a", "b"])
    for reminder in (0, 3, "c"):
        assert desk.do("remove_reminder", reminder=reminder).code == "not_found"
    assert desk.do("remove_reminder", reminder="b") is None
    assert desk.state["reminders"] == ["a"]
    assert desk.do("remove_reading", path="@nosuch").code == "not_found"
    assert desk.do("unset_context", keys=["nosuch"]).code == "not_found"
    assert desk.do("unset_context", keys=[]).code == "invalid"
    assert desk.do("rename_workflow", title="try").code == "already"
    assert desk.do("rename_workflow", title="").code == "invalid"


def test_a_reading_that_comes_back_is_read_anew():
    desk = Desk(required_reading=["@x"])
    desk.do("confirm_reading", path="@x")
    desk.do("remove_reading", path="@x")
    assert desk.state["read"] == {}
    desk.do("require_reading", path="@x")
    assert workflow.unread(desk.state) == ["@x"]


@pytest.mark.parametrize(
    ("kind", "args", "hint"),
    [
        ("edit_task", {"description": "x"}, "holdfast loop plan try --unit 'T1: TITLE'"),
        ("remove_task", {}, "holdfast loop block T1 --reason TEXT"),
        ("reopen_task", {}, "holdfast loop plan try --unit 'TN: TITLE'"),
        ("move_task", {"to": 1}, "holdfast loop plan try --unit T1 --depends UNIT"),
        ("unblock_task", {}, "holdfast loop unblock T1"),
    ],
)
def test_a_unit_of_a_loop_has_commands_of_its_own(kind, args, hint):
    desk = Desk("loop-development")
    desk.do("plan_unit", task="T1", description="one")
    refusal = desk.do(kind, task="T1", **args)
    assert (refusal.code, refusal.hint) == ("wrong_order", hint)
    assert "is a loop's unit" in refusal.message


def test_nothing_but_undo_mends_what_has_ended():
    desk = Desk()
    desk.do("abandon_workflow")
    for kind, args in (("edit_task", {"task": 1, "description": "x"}),
                       ("rename_workflow", {"title": "x"})):  # fmt: skip
        assert desk.do(kind, **args).hint == "holdfast resume try"
    assert desk.undo() is None
    assert is_active(desk.state)


# Undo


def undone(desk):
    return desk.events[-1]["data"]


def test_undo_says_what_was_undone_and_what_came_back():
    desk = Desk()
    desk.do("start_task", task=3)
    desk.do("complete_task", task=3, commit="abc")
    seq = len(desk.events)
    assert desk.undo() is None
    assert (desk.last(), desk.task(3)["status"]) == ("change_undone", "in_progress")
    data = undone(desk)
    assert (data["what"], data["back"]) == ("task 3 done", ["task 3 is in progress again"])
    assert data["undoes"] == [seq]
    assert desk.state["history"][-1]["what"] == "task 3 done"
    assert_is_kept_by_its_record(desk.state)


@pytest.mark.parametrize(
    ("kind", "args", "back"),
    [
        ("add_tasks", {"tasks": [{"text": "x"}]}, "task 4 is gone"),
        ("remove_task", {"task": 2}, "task 2 is back"),
        ("edit_task", {"task": 2, "description": "x"}, "task 2 is 'two' again"),
        ("move_task", {"task": 3, "to": 1}, "the tasks are in the order 1, 2, 3 again"),
        ("add_reminder", {"text": "b"}, "reminder is gone: b"),
        ("remove_reminder", {"reminder": 1}, "reminder is back: a"),
        ("require_reading", {"path": "@y"}, "reading is gone: @y"),
        ("set_context", {"values": {"k": 2}}, "k is 1 again"),
        ("set_context", {"values": {"l": 2}}, "l is not set again"),
        ("rename_workflow", {"title": "x"}, "the title is 'try' again"),
        ("advance", {}, "the phase is load_feature again"),
        ("block_phase", {"phase": "load_feature"}, "phase load_feature is in progress again"),
        ("record_gate", {"gate": "lint", "passed": False}, "gate lint is back to pending"),
        (
            "record_gate",
            {"gate": "review", "passed": True},
            "gate review is gone",
        ),
        ("waive_gate", {"gate": "lint", "reason": "x"}, "gate lint is back to pending"),
        (
            "skip_phase",
            {"phase": "load_feature", "reason": "x"},
            "the phase is load_feature again",
        ),
        ("record_gate", {"gate": "mine", "passed": True}, "gate mine is gone"),
        ("abandon_workflow", {}, "the workflow is active again"),
        ("complete_workflow", {"force": True, "reason": "x"}, "the workflow is active again"),
        ("record_files", {"files": [{"path": "a"}]}, "everything is as it was before"),
    ],
)
def test_undo_gives_back_what_a_command_changed(kind, args, back):
    desk = Desk(reminders=["a"], context={"k": 1})
    assert desk.do(kind, **args) is None
    assert desk.undo() is None
    assert back in undone(desk)["back"]


RUN = {"gate": "lint", "passed": False, "evidence": "run", "fields": {"command": "make lint"}}


def test_a_run_cannot_be_undone():
    desk = Desk()
    for passed in (True, False):
        desk.do("record_gate", **{**RUN, "passed": passed})
        refusal = desk.undo()
        assert (refusal.code, refusal.hint) == (
            "not_undoable",
            "holdfast gate run lint -- make lint",
        )
        assert desk.state["gates"]["lint"]["passed"] is passed
    desk.do("record_tests", tests={"evidence": "run", "test_command": "make test"})
    assert desk.undo().hint == "holdfast tests run -- make test"
    desk.do("record_tests", tests={"evidence": "claim", "last_result": "passed"})
    assert desk.undo() is None


def test_a_failed_run_of_somebody_else_is_not_undone_with_a_claim_before_it():
    desk = Desk()
    desk.do("record_gate", gate="review", passed=True)
    desk.do("record_gate", by=BOB, **{**RUN, "gate": "review"})
    refusal = desk.undo(1)
    assert refusal.code == "conflict"
    assert "(gate review recorded) by session bob" in refusal.message
    assert desk.state["gates"]["review"]["passed"] is False


def test_a_run_that_undo_gives_back_is_a_claim_if_it_passed_and_itself_if_it_failed():
    """An import may have brought it, and nothing that came from elsewhere is evidence here."""
    for passed, evidence in ((True, "claim"), (False, "run")):
        desk = Desk()
        desk.do("record_gate", **{**RUN, "passed": passed})
        claimed = desk.do("record_gate", gate="lint", passed=False)
        # A claim takes the place of a run that passed alone; a waiver takes that of any.
        assert (claimed is None) is passed
        if not passed:
            assert desk.do("waive_gate", gate="lint", reason="x") is None
        assert desk.state["gates"]["lint"].get("evidence") != "run"
        assert desk.undo() is None
        gate = desk.state["gates"]["lint"]
        assert (gate["passed"], gate["evidence"]) == (passed, evidence)
        desk = Desk()
        result = {"evidence": "run", "last_result": "passed" if passed else "failed"}
        desk.do("record_tests", tests={**result, "exit_code": int(not passed)})
        desk.do("record_tests", tests={"evidence": "claim", "last_result": "unknown"})
        assert desk.undo() is None
        assert desk.state["tests"]["evidence"] == evidence
        assert ("exit_code" in desk.state["tests"]) is not passed


def test_the_start_is_not_undone():
    refusal = Desk().undo()
    assert (refusal.code, refusal.hint) == ("not_undoable", "holdfast abandon")


@pytest.mark.parametrize(
    ("end", "hint"), [("abandon_workflow", "abandon"), ("complete_workflow", "show try")]
)
def test_to_take_an_ended_workflow_up_again_is_not_undone(end, hint):
    desk = Desk()
    desk.do(end, force=True, reason="x")
    desk.do("resume_workflow")
    refusal = desk.undo()
    assert (refusal.code, refusal.hint) == ("not_undoable", f"holdfast {hint}")


def test_undo_keeps_what_somebody_else_did_elsewhere():
    desk = Desk()
    desk.do("complete_task", task=1)
    desk.do("complete_task", task=2, by=BOB)
    desk.do("add_reminder", text="b", by=BOB)
    assert desk.undo(1) is None
    assert [task["status"] for task in desk.state["tasks"]] == ["pending", "completed", "pending"]
    assert desk.state["reminders"] == ["b"]


def test_entries_of_a_list_are_undone_apart():
    desk = Desk(reminders=["a"])
    desk.do("add_tasks", tasks=[{"text": "four"}])
    desk.do("complete_task", task=1, by=BOB)
    desk.do("add_tasks", tasks=[{"text": "five"}], by=BOB)
    desk.do("move_task", task=2, to=1, by=BOB)
    assert desk.undo(1) is None
    assert desk.ids() == [2, 1, 3, 5]
    assert desk.task(1)["status"] == "completed"
    desk.do("remove_reminder", reminder=1)
    desk.do("add_reminder", text="b", by=BOB)
    assert desk.undo(-2) is None
    assert desk.state["reminders"] == ["a", "b"]
    desk.do("remove_task", task=1)
    desk.do("edit_task", task=3, description="x", by=BOB)
    assert desk.undo(-2) is None
    assert desk.ids() == [2, 1, 3, 5]
    assert (desk.task(1)["status"], desk.task(3)["description"]) == ("completed", "x")


def test_an_order_that_somebody_else_changed_since_stays():
    desk = Desk()
    desk.do("move_task", task=3, to=1)
    desk.do("add_tasks", tasks=[{"text": "four"}], by=BOB)
    desk.do("move_task", task=2, to=1, by=BOB)
    assert "(task 2 moved) by session bob" in desk.undo(1).message
    desk.do("move_task", task=4, to=1)
    desk.do("add_tasks", tasks=[{"text": "five"}], by=BOB)
    assert desk.undo(-2) is None
    assert desk.ids() == [2, 3, 1, 4, 5]


def test_the_same_reminder_twice_is_removed_and_given_back_once():
    desk = Desk(reminders=["a", "b", "a"])
    desk.do("remove_reminder", reminder=1)
    assert desk.state["reminders"] == ["b", "a"]
    assert desk.undo() is None
    assert desk.state["reminders"] == ["a", "b", "a"]


def test_undo_does_not_overwrite_what_somebody_else_changed_since():
    desk = Desk()
    desk.do("edit_task", task=1, description="x")
    desk.do("add_reminder", text="b", by=BOB)
    desk.do("edit_task", task=1, description="y", by=BOB)
    desk.do("edit_task", task=2, description="z", by={})
    refusal = desk.undo(1)
    assert (refusal.code, refusal.hint) == ("conflict", "holdfast log try")
    assert "(task 1 edited) by session bob" in refusal.message
    assert desk.task(1)["description"] == "y"


def test_the_change_that_is_named_is_neither_undone_nor_an_undo():
    desk = Desk()
    desk.do("edit_task", task=1, description="x")
    desk.do("edit_task", task=1, description="y", by=BOB)
    desk.do("edit_task", task=1, description="z")
    desk.undo()
    assert "event 7 (task 1 edited) by session bob" in desk.undo(1).message
    changes = [[["tasks", 1, "description"], "two", "by hand"]]
    desk.do("edit_task", task=2, description="x")
    desk.do("adopt_edit", base=1, changes=changes)
    assert "(record edited) has since changed" in desk.undo(-2).message


def test_what_has_ended_since_is_resumed_before_anything_is_undone():
    desk = Desk()
    desk.do("complete_task", task=1)
    desk.do("abandon_workflow", by=BOB)
    refusal = desk.undo(1)
    assert (refusal.code, refusal.hint) == ("ended", "holdfast resume try")


def test_a_completed_workflow_whose_record_was_cleaned_comes_back_with_it():
    desk = Desk()
    desk.do("complete_workflow", force=True, reason="x")
    desk.do("clean_record")
    assert desk.undo(1) is None
    assert is_active(desk.state)
    assert "cleaned_at" not in desk.state


def test_nothing_to_undo_is_a_refusal():
    desk = Desk()
    assert desk.do("undo_change", before=None, events=[], later=[]).code == "not_found"
    desk.do("add_reminder", text="x")
    assert desk.undo() is None
    assert desk.undo(1).code == "already"


def test_in_a_loop_only_what_its_pages_do_not_show_is_undone():
    desk = Desk("loop-development")
    desk.do("plan_unit", task="T1", description="one")
    refusal = desk.undo()
    assert (refusal.code, refusal.hint) == ("not_undoable", "holdfast loop next")
    desk.do("add_reminder", text="x")
    assert desk.undo() is None
    assert desk.state["reminders"] == []


def test_undo_leaves_the_session_that_the_change_bound():
    desk = Desk()
    before, session = desk.state, {"id": "ada", "at": AT}
    desk.do("resume_workflow", session=session)
    desk.do("complete_task", task=1)
    desk.requests[1:] = [(before, desk.events[-2:])]
    assert desk.undo() is None
    assert (desk.task(1)["status"], desk.state["session"]) == ("pending", session)
    assert undone(desk)["what"] == "task 1 done"


texts = st.sampled_from(["a", "b", "c"])
numbers = st.integers(1, 4)
phases = st.sampled_from(["load_feature", "create_branch", "red", "green", "analyze", "Design"])
COMMANDS = {
    "add_tasks": {
        "tasks": st.lists(st.fixed_dictionaries({"text": texts}), min_size=1, max_size=2)
    },
    "start_task": {"task": numbers},
    "start_task_phase": {"task": numbers, "phase": st.sampled_from(["red", "green"])},
    "complete_task": {"task": numbers, "commit": st.none() | texts},
    "block_task": {"task": numbers, "reason": texts},
    "unblock_task": {"task": numbers},
    "edit_task": {"task": numbers, "description": texts},
    "remove_task": {"task": numbers},
    "reopen_task": {"task": numbers},
    "move_task": {"task": numbers, "to": numbers},
    "advance": {"branch": st.none() | texts, "fields": st.just({})},
    "start_phase": {"phase": phases, "fields": st.just({}) | st.just({"test_file": "t"})},
    "complete_phase": {"phase": phases, "fields": st.just({"note": 1})},
    "block_phase": {"phase": phases, "fields": st.just({"reason": "x"})},
    "unblock_phase": {"phase": phases},
    "approve_phase": {"phase": phases},
    "start_step": {"step": texts},
    "add_reminder": {"text": texts},
    "remove_reminder": {"reminder": numbers | texts},
    "require_reading": {"path": texts.map("@{}".format)},
    "remove_reading": {"path": texts.map("@{}".format)},
    "set_context": {"values": st.dictionaries(texts, numbers | st.just({"_absent": True}))},
    "unset_context": {"keys": st.lists(texts, max_size=2)},
    "rename_workflow": {"title": texts},
    "record_gate": {"gate": texts | st.just("lint"), "passed": st.booleans()},
    "record_tests": {"tests": st.just({"evidence": "claim", "last_result": "failed"})},
    "record_files": {"files": st.lists(texts.map(lambda path: {"path": path}), max_size=2)},
    "add_violation": {"code": texts, "severity": st.just("HIGH"), "details": texts},
    "clear_violation": {"code": texts},
    "complete_workflow": {"force": st.just(True), "reason": texts},
    "abandon_workflow": {"reason": st.none() | texts},
    "resume_workflow": {},
    "plan_unit": {"task": st.sampled_from(["T1", "T2"]), "description": texts},
    "record_iteration": {"task": st.just("T1"), "did": texts, "remaining": texts},
}
commands = st.sampled_from(sorted(COMMANDS)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.fixed_dictionaries(COMMANDS[kind]))
)
LASTING = (
    "start_workflow", "resume_workflow", "plan_unit", "record_iteration", "add_violation",
)  # fmt: skip
KEPT = ("history", "history_earlier", "updated_at", "session", "read")


def comparable(state):
    return {name: value for name, value in state.items() if name not in KEPT}


@settings(max_examples=400)
@given(st.sampled_from(RECIPES), st.lists(commands, min_size=1, max_size=12))
def test_undo_after_any_command_gives_back_the_state_before(recipe, sent):
    desk = Desk(recipe)
    kinds = ["start_workflow"]
    for kind, args in sent:
        count = len(desk.events)
        if desk.do(kind, **args) is None and len(desk.events) > count:
            kinds.append(kind)
        elif len(desk.events) == count:
            desk.requests = [request for request in desk.requests if request[1]]
    before, after = desk.requests[-1][0], desk.state
    refusal = desk.undo()
    if refusal is not None:
        changes_nothing = before is not None and comparable(before) == comparable(after)
        is_of_loop = recipe.startswith("loop") and refusal.code == "not_undoable"
        assert kinds[-1] in LASTING or changes_nothing or is_of_loop
        assert desk.state == after
        return
    assert comparable(desk.state) == comparable(before)
    assert_is_kept_by_its_record(desk.state)

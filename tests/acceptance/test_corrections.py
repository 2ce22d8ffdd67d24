"""Mistakes can be mended: every correction on the command line, and what its record shows."""

import json

import pytest

RECORD = ".claude/workflow-state/active/{}.json"


@pytest.fixture
def dev(repo):
    """A dev workflow with three tasks; its id."""
    words = [word for task in ("one", "two", "three") for word in ("--task", task)]
    notes = ["--remind", "a", "--remind", "b", "--read", "@README.md", "--set", "k=1"]
    return repo.ok("start", "dev", "x.md", *words, *notes)["workflow"]["id"]


def tasks(repo):
    return [(task["id"], task["description"], task["status"]) for task in repo.state()["tasks"]]


def test_the_record_shows_what_was_mended(repo, dev):
    repo.ok("task", "edit", "1", "ONE")
    repo.ok("task", "move", "3", "--before", "1")
    repo.ok("task", "remove", "2")
    repo.ok("remind", "--remove", "1")
    repo.ok("read", "--remove", "@README.md")
    repo.ok("unset", "k")
    repo.ok("rename", "A better title")
    record = repo.record(RECORD.format(dev))
    shown = [(task["index"], task["description"]) for task in record["tasks"]]
    assert shown == [(3, "three"), (1, "ONE")]
    assert record["context"]["feature_title"] == "A better title"
    assert "k" not in record["context"]
    state = repo.state()
    assert (state["reminders"], state["required_reading"]) == (["b"], [])
    assert repo.ok("status")["workflows"][0]["title"] == "A better title"
    assert repo.ok("task", "add", "four")["workflow"]["tasks"][-1]["id"] == 4
    assert repo.ok("verify")["counts"]["errors"] == 0


def test_a_removed_number_is_not_given_again_after_the_ledger_is_lost(repo, dev):
    repo.ok("task", "remove", "3")
    repo.git("add", "-Af")
    copy = repo.at("..", "copy")
    copy.write(RECORD.format(dev), json.dumps(repo.record(RECORD.format(dev))))
    assert copy.ok("task", "add", "four", "-w", dev)["workflow"]["tasks"][-1]["id"] == 4


@pytest.mark.parametrize("recipe", ["tdd", "apex", "planning"])
def test_every_format_keeps_what_was_mended(repo, recipe):
    repo.ok("start", recipe, "x", "--task", "one", "--task", "two", "--remind", "a")
    repo.ok("task", "done", "1", "--commit", "HEAD")
    for words in (["task", "reopen", "1"], ["task", "move", "2", "--to", "1"],
                  ["task", "edit", "1", "ONE"], ["rename", "Other"], ["undo"],
                  ["remind", "--remove", "1"], ["task", "remove", "2"]):  # fmt: skip
        repo.ok(*words)
        assert repo.ok("verify")["counts"]["errors"] == 0
    assert tasks(repo) == [(1, "ONE", "pending")]
    repo.ok("repair")
    assert tasks(repo) == [(1, "ONE", "pending")]


def test_people_read_what_was_mended(repo, dev):
    for line, said in [
        ("task edit 2 TWO", "task 2 edited: TWO"),
        ("task move 3 --after 1", "task 3 moved; the order is 1, 3, 2"),
        ("task done 1", "task 1 done: one"),
        ("task done 1 --commit HEAD", "commit HEAD added to task 1"),
        ("task reopen 1", "task 1 reopened: one"),
        ("task block 1 --reason x", "task 1 blocked"),
        ("task unblock 1", "task 1 unblocked: one"),
        ("task remove 1", "task 1 removed"),
        ("remind --remove 2", "reminder 2 removed"),
        ("read --remove @README.md", "required reading removed: @README.md"),
        ("unset k", "context unset: k"),
        ("rename Better", "renamed: Better"),
    ]:
        answer = repo.run(*line.split())
        assert (answer.code, said in answer.out) == (0, True), answer
    assert "  1  a\n" in repo.run("show").out


# Undo


def test_undo_gives_back_step_by_step_and_stops_at_the_start(repo, dev):
    repo.ok("task", "start", "3")
    repo.ok("task", "done", "3", "--commit", "HEAD")
    answer = repo.run("undo")
    assert "undone: task 3 done" in answer.out
    assert "  task 3 is in progress again\n" in answer.out
    undone = repo.ok("undo")["undone"]
    assert (undone["what"], undone["back"]) == ("task 3 started", ["task 3 is pending again"])
    error = repo.refused("undo")
    assert (error["code"], error["hint"]) == ("not_undoable", "holdfast abandon")
    assert repo.types()[-4:] == ["task_started", "task_completed", "change_undone", "change_undone"]


def test_a_request_with_several_events_is_undone_whole(repo, dev):
    repo.ok("advance")
    repo.git("switch", "-q", "-c", "feat/x")
    before = repo.state()
    repo.ok("phase", "start", "task_execution", "note=1")
    assert repo.types()[-3:] == ["phase_completed", "phase_started", "phase_noted"]
    repo.ok("undo")
    after = repo.state()
    for name in ("phase", "phases", "branch", "tasks"):
        assert after[name] == before[name]


def test_an_undone_request_is_undone_once_however_often_it_is_sent(repo, dev):
    repo.ok("remind", "c")
    repo.ok("remind", "d")
    first = repo.ok("undo", "--id", "u-1")
    again = repo.ok("undo", "--id", "u-1")
    assert (again["seqs"], again["undone"]) == (first["seqs"], first["undone"])
    assert repo.state()["reminders"] == ["a", "b", "c"]


def test_a_failed_run_cannot_be_undone(repo, dev):
    repo.run("gate", "run", "lint", "--", "test", "-f", ".")
    error = repo.refused("undo")
    assert (error["code"], error["hint"]) == ("not_undoable", "holdfast gate run lint -- test -f .")
    repo.run("tests", "run", "--", "test", "-f", ".")
    assert repo.refused("undo")["hint"] == "holdfast tests run -- test -f ."
    gate = repo.state()["gates"]["lint"]
    assert (gate["passed"], gate["evidence"]) == (False, "run")


@pytest.mark.parametrize("recipe", ["dev", "apex", "planning"])
@pytest.mark.parametrize("end", [["complete", "--force", "--reason", "x"], ["abandon"]])
def test_a_workflow_that_has_just_ended_is_active_again_and_its_record_is_back(repo, recipe, end):
    before = repo.ok("start", recipe, "x", "--task", "one")["workflow"]
    repo.ok(*end)
    assert repo.has(before["record"]) is (recipe == "apex")
    answer = repo.ok("undo")
    assert answer["undone"]["back"][0] == "the workflow is active again"
    state = repo.state()
    for name in ("id", "status", "phase", "phases", "tasks", "record"):
        assert state[name] == before[name]
    assert repo.has(before["record"])
    assert not repo.has(".claude/workflow-state/completed", f"{before['id']}.json")
    assert repo.indexed_ids() == [before["id"]] if recipe == "dev" else True
    assert repo.ok("verify")["counts"]["errors"] == 0


def test_what_was_just_ended_is_meant_before_another_workflow(repo, dev):
    other = repo.ok("start", "tdd", "y")["workflow"]["id"]
    repo.ok("abandon", "-w", dev)
    assert repo.ok("undo")["workflow"]["id"] == dev
    repo.ok("abandon", "-w", dev)
    repo.ok("remind", "later", "-w", other)
    assert repo.ok("undo")["workflow"]["id"] == other


def test_a_place_that_is_taken_by_now_is_not_taken_back(repo):
    repo.ok("start", "apex", "one")
    repo.ok("abandon")
    repo.ok("start", "apex", "two", "--session", "other")
    assert repo.refused("undo")["code"] == "occupied"


def test_each_session_undoes_its_own_change(repo):
    words = ["--task", "one", "--task", "two"]
    workflow = repo.ok("start", "dev", "x.md", *words)["workflow"]["id"]
    aim = ["-w", workflow]
    repo.ok("task", "edit", "1", "ONE", *aim, "--session", "ada")
    repo.ok("task", "edit", "2", "TWO", *aim, "--session", "bob")
    answer = repo.ok("undo", *aim, "--session", "ada")
    assert answer["undone"]["back"] == ["task 1 is 'one' again"]
    assert [task["description"] for task in repo.state(workflow)["tasks"]] == ["one", "TWO"]
    assert repo.refused("undo", *aim, "--session", "ada")["code"] == "not_found"
    assert repo.refused("undo", *aim)["code"] == "not_undoable"


def test_what_somebody_else_changed_since_is_named(repo, dev):
    aim = ["-w", dev]
    repo.ok("task", "edit", "1", "ONE", *aim, "--session", "ada")
    repo.ok("task", "edit", "1", "EINS", *aim, "--session", "bob")
    error = repo.refused("undo", *aim, "--session", "ada")
    assert error["code"] == "conflict"
    assert "(task 1 edited) by session bob" in error["message"]


def test_an_edit_of_the_record_by_hand_is_nobodys_change_to_undo(repo, dev):
    repo.ok("task", "edit", "1", "ONE")
    repo.edit(RECORD.format(dev), lambda record: record["tasks"][1].update(description="TWO"))
    repo.ok("undo")
    assert [task[1] for task in tasks(repo)] == ["one", "TWO", "three"]
    assert repo.types()[-2:] == ["record_edited", "change_undone"]


def test_without_a_workflow_there_is_nothing_to_undo(folder):
    assert folder.refused("undo")["code"] == "not_found"
    assert not folder.has(".claude")


def test_a_loop_undoes_its_notes_and_leaves_its_units_to_its_own_commands(repo):
    repo.ok("loop", "new", "survey")
    repo.ok("loop", "plan", "survey", "--unit", "T1: One")
    error = repo.refused("undo")
    assert (error["code"], error["hint"]) == ("not_undoable", "holdfast loop next")
    assert repo.refused("task", "edit", "T1", "x")["hint"].startswith("holdfast loop plan survey")
    repo.ok("set", "k=1")
    repo.ok("undo")
    assert "k" not in repo.state()["context"]
    repo.ok("rename", "Another survey")
    assert repo.ok("verify")["counts"]["errors"] == 0


def test_the_index_and_the_graph_follow_an_undo(repo, dev):
    repo.ok("rename", "Other")
    repo.ok("abandon")
    assert repo.indexed_ids() == []
    repo.ok("undo")
    assert repo.indexed_ids() == [dev]
    repo.ok("undo")
    index = repo.record(".claude/workflow-state/index.json")
    assert "Other" not in json.dumps(index)
    assert repo.ok("verify")["counts"]["behind"] == 0

"""Edits of records that list their phases: the skill and the verb format."""

import pytest

from holdfast.core.workflow import find_phase, find_task
from holdfast.formats import skill, verb
from holdfast.workspace import recipes
from support.editing import AT, LATER, Record, begun, changed, statuses
from support.strategies import origin_of

# The skill format, changed with jq


def dev(at_phase="task_execution", **fields):
    return Record(skill, begun("dev", at_phase=at_phase, **fields))


def test_script_that_sets_the_current_phase_alone_moves_there():
    record = dev()
    record.document["state_machine"]["current_phase"] = "verification"
    record.document["workflow"]["updated_at"] = LATER
    record.document["history"] += [{"at": LATER, "event": "phase_started", "phase": "verification"}]
    state = record.parsed()
    assert state["phase"] == "verification"
    assert statuses(state) == ["completed", "completed", "completed", "in_progress", "pending"]
    assert "completed_at" not in find_phase(state, "task_execution")
    assert state["updated_at"] == LATER
    assert state["history"] == [{"at": LATER, "event": "phase_started", "phase": "verification"}]
    assert changed(record.state, state) == {"phase", "phases", "updated_at", "history"}


def test_script_that_goes_back_makes_the_later_phases_pending_again():
    record = dev("verification")
    record.document["state_machine"]["current_phase"] = "create_branch"
    state = record.parsed()
    assert statuses(state) == ["completed", "in_progress", "pending", "pending", "pending"]
    assert "completed_at" not in find_phase(state, "create_branch")
    assert "completed_at" not in find_phase(state, "task_execution")
    assert find_phase(state, "load_feature")["completed_at"] == AT


def test_phases_that_were_skipped_stay_pending():
    record = dev("load_feature")
    record.document["state_machine"]["current_phase"] = "verification"
    assert statuses(record.parsed()) == [
        "completed", "pending", "pending", "in_progress", "pending",
    ]  # fmt: skip


def test_edit_of_the_statuses_alone_moves_the_current_phase():
    record = dev()
    phases = record.document["state_machine"]["phases"]
    phases[2] |= {"status": "completed", "completed_at": LATER}
    phases[3]["status"] = "in_progress"
    state = record.parsed()
    assert state["phase"] == "verification"
    assert statuses(state) == ["completed", "completed", "completed", "in_progress", "pending"]
    assert find_phase(state, "task_execution")["completed_at"] == LATER


def test_phase_that_was_left_in_progress_by_the_edit_follows():
    record = dev()
    record.document["state_machine"]["phases"][3]["status"] = "in_progress"
    state = record.parsed()
    assert state["phase"] == "verification"
    assert statuses(state) == ["completed", "completed", "completed", "in_progress", "pending"]


def test_statuses_that_the_author_wrote_are_kept_on_a_move():
    record = dev()
    machine = record.document["state_machine"]
    machine["current_phase"] = "verification"
    machine["phases"][2]["status"] = "blocked"
    machine["phases"][4]["status"] = "completed"
    state = record.parsed()
    assert state["phase"] == "verification"
    assert statuses(state) == ["completed", "completed", "blocked", "in_progress", "completed"]


def test_two_phases_set_in_progress_leave_the_current_one():
    record = dev("load_feature")
    phases = record.document["state_machine"]["phases"]
    phases[1]["status"] = phases[2]["status"] = "in_progress"
    state = record.parsed()
    assert state["phase"] == "load_feature"
    assert statuses(state)[:3] == ["in_progress"] * 3


def test_phase_that_was_inserted_by_hand_is_in_the_recipe_too():
    record = dev()
    record.document["state_machine"]["phases"].insert(3, {"name": "demo", "status": "pending"})
    state = record.parsed()
    assert [phase["name"] for phase in state["recipe"]["phases"]][2:4] == ["task_execution", "demo"]
    assert state["phase"] == "task_execution"


def test_script_that_completes_a_task_is_taken_at_its_word():
    tasks = [
        {"id": 1, "description": "one", "status": "in_progress", "commit": None},
        {"id": 2, "description": "two", "status": "pending"},
    ]
    record = dev(tasks=tasks, current_task=1)
    record.document["tasks"][0] |= {"status": "completed", "commit_sha": "4f5e6d7"}
    state = record.parsed()
    assert find_task(state, 1)["status"] == "completed"
    assert find_task(state, 1)["commit"] == "4f5e6d7"
    assert changed(record.state, state) == {"tasks"}


def test_script_that_records_a_checkpoint_is_taken_at_its_word():
    record = dev()
    record.document["checkpoints"]["lint"] |= {"status": "completed", "passed": True}
    state = record.parsed()
    assert state["gates"]["lint"] == {"status": "completed", "passed": True}
    assert changed(record.state, state) == {"gates"}


def test_script_that_completes_the_workflow_is_taken_at_its_word():
    record = dev("pr_creation")
    record.document["workflow"] |= {"status": "completed", "completed_at": LATER}
    state = record.parsed()
    assert state["status"] == "completed"
    assert state["completed_at"] == LATER


def test_subject_and_title_are_changed_where_they_are_shown():
    record = dev()
    assert record.document["context"]["feature_file"] == "a subject"
    record.document["context"] |= {"feature_file": "b.md", "feature_title": "B", "page": 2}
    state = record.parsed()
    assert (state["subject"], state["title"]) == ("b.md", "B")
    assert state["context"] == {**record.state["context"], "page": 2}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["state_machine", "current_phase"], "lunch"),
        (["state_machine", "current_phase"], ""),
        (["state_machine", "phases", 1, "status"], "done"),
        (["state_machine", "phases", 1, "name"], "load_feature"),
        (["state_machine", "phases", 1, "completed_at"], 1767225600),
        (["state_machine", "phases", 3, "steps"], None),
        (["state_machine", "cycle_count"], -1),
        (["workflow", "status"], "paused"),
        (["workflow", "branch"], ["main"]),
        (["tasks", 0, "status"], "finished"),
        (["tasks", 0, "index"], True),
        (["tasks", 1, "index"], 1),
        (["tasks", 0, "commit_sha"], 4711),
        (["tasks", 0, "tdd_phases", "red"], "gone"),
        (["checkpoints", "lint"], "passed"),
        (["history", 0], "something happened"),
        (["_schema", "version"], "2.0"),
        (["_schema", "skill"], " "),
        (["context", "feature_file"], 5),
    ],
)
def test_edit_that_makes_no_sense_is_named_by_its_place(path, value):
    tasks = [
        {"id": 1, "description": "one", "status": "pending", "phases": {"red": "pending"}},
        {"id": 2, "description": "two", "status": "pending"},
    ]
    record = dev(tasks=tasks, history=[{"at": AT, "event": "workflow_started"}])
    target = record.document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert record.refused().path == path


def test_foreign_statuses_that_lag_behind_the_current_phase_follow_it():
    record = dev("create_branch")
    record.rest = {}
    record.document["state_machine"]["current_phase"] = "task_execution"
    assert statuses(record.parsed())[:4] == ["completed", "completed", "in_progress", "pending"]
    record.document["state_machine"]["current_phase"] = "load_feature"
    assert statuses(record.parsed())[:3] == ["in_progress", "pending", "pending"]


def test_current_phase_that_is_not_told_is_the_one_in_progress():
    record = dev()
    del record.document["state_machine"]["current_phase"]
    assert record.parsed()["phase"] == "task_execution"
    record.document["state_machine"]["current_phase"] = None
    assert record.parsed()["phase"] is None


def test_expired_workflow_is_abandoned_to_readers_and_expired_to_us():
    record = dev(status="expired")
    assert record.document["workflow"]["status"] == "abandoned"
    assert record.parsed()["status"] == "expired"
    record.document["workflow"]["status"] = "in_progress"
    assert record.parsed()["status"] == "in_progress"


def test_history_says_how_much_came_before_it():
    assert "history_earlier" not in dev().document
    record = dev(history_earlier=7)
    assert record.document["history_earlier"] == 7
    assert record.parsed()["history_earlier"] == 7


# The verb format, whose phases can be revisited


def apex(at_phase="implement", **fields):
    return Record(verb, begun("apex", at_phase=at_phase, **fields))


def violation(severity, code="V-1"):
    return {"code": code, "severity": severity, "details": "because"}


def test_phase_set_alone_moves_there_and_back():
    record = apex()
    record.document |= {"phase": "review", "lastUpdated": LATER}
    state = record.parsed()
    assert state["phase"] == "review"
    assert statuses(state) == ["completed"] * 3 + ["in_progress", "pending"]
    assert changed(record.state, state) == {"phase", "phases", "updated_at"}
    record.document["phase"] = "analyze"
    assert statuses(record.parsed()) == ["in_progress", *["pending"] * 4]


def test_phase_that_was_added_to_a_verb_record_is_in_the_recipe_too():
    record = apex()
    record.document["phases"].append({"name": "x-archive", "status": "pending"})
    assert record.parsed()["recipe"]["phases"][-1] == {"name": "x-archive"}


def test_phase_that_no_phase_is_called_is_invalid():
    record = apex()
    record.document["phase"] = "celebrate"
    assert record.refused().path == ["phase"]


def test_times_of_phases_are_in_camel_case():
    record = apex()
    assert record.document["phases"][0] == {
        "name": "analyze", "status": "completed", "startedAt": AT, "completedAt": AT,
    }  # fmt: skip
    record.document["phases"][1] |= {"completedAt": LATER, "approved": True}
    assert find_phase(record.parsed(), "plan")["completed_at"] == LATER
    record.document["phases"][1]["completedAt"] = True
    assert record.refused().path == ["phases", 1, "completedAt"]


def test_context_is_the_title_and_does_not_change_the_id():
    record = apex(title="Old", subject="Old")
    record.document["context"] = "New"
    state = record.parsed()
    assert (state["id"], state["title"], state["subject"]) == ("apex-1", "New", "New")


@pytest.mark.parametrize(
    ("severities", "blocking", "summary"),
    [
        (["HIGH"], True, "1 HIGH violation (blocking)"),
        (["LOW", "CRITICAL", "LOW"], True, "1 CRITICAL, 2 LOW violations (blocking)"),
        (["MEDIUM"], False, "1 MEDIUM violation"),
        (["INFO", "LOW"], False, "1 LOW, 1 INFO violations"),
    ],
)
def test_violations_are_summed_up(severities, blocking, summary):
    found = [violation(severity, f"V-{n}") for n, severity in enumerate(severities)]
    enforcement = apex(violations=found).document["enforcement"]
    assert (enforcement["blocking"], enforcement["summary"]) == (blocking, summary)


def test_violations_that_were_cleared_by_hand_leave_nothing_behind():
    record = apex(violations=[violation("HIGH")])
    record.document["enforcement"] |= {"violations": [], "reviewer": "me"}
    state = record.parsed()
    assert state["violations"] == []
    assert verb.render(state)[0]["enforcement"] == {"reviewer": "me"}


def test_violation_that_was_added_by_hand_blocks():
    record = apex()
    record.document["enforcement"] = {"violations": [{"code": "V-9", "severity": "HIGH"}]}
    state = record.parsed()
    assert state["violations"] == [{"code": "V-9", "severity": "HIGH", "details": ""}]
    assert verb.render(state)[0]["enforcement"]["blocking"] is True
    record.document["enforcement"]["violations"][0]["severity"] = 1
    assert record.refused().path == ["enforcement", "violations", 0, "severity"]


def test_verb_document_of_another_tool_has_its_defaults():
    record = apex()
    record.rest, record.document = {}, {"type": "APEX", "phase": "review", "context": "x"}
    state = record.parsed()
    assert (state["ttl"], state["status"]) == ("24h", "in_progress")
    assert state["phases"] == [{"name": "review", "status": "in_progress"}]


def test_verb_document_without_phases_has_those_of_its_recipe():
    document = {"type": "APEX", "phase": "review", "context": "x"}
    origin = {**origin_of(apex().state), "recipe": recipes.load}
    state = verb.parse(document, {}, origin)
    assert statuses(state) == ["completed"] * 3 + ["in_progress", "pending"]
    document["phase"] = "x-archive"
    state = verb.parse(document, {}, origin)
    assert [phase["name"] for phase in state["recipe"]["phases"]][-1] == "x-archive"
    assert statuses(state) == ["completed"] * 5 + ["in_progress"]


@pytest.mark.parametrize(("key", "value"), [("ttl", "a while"), ("status", "on hold")])
def test_verb_edit_that_makes_no_sense_is_named_by_its_place(key, value):
    record = apex()
    record.document[key] = value
    assert record.refused().path == [key]


def test_time_to_live_can_be_switched_off():
    record = apex()
    record.document["ttl"] = None
    assert record.parsed()["ttl"] is None


def test_record_that_was_reset_is_no_workflow():
    record = apex()
    record.document = {}
    assert record.refused().path == []

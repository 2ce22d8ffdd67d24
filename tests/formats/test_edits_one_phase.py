"""Edits of records that name a single phase: the formal and the loop format."""

import pytest

from holdfast.core.workflow import find_phase, find_task
from holdfast.formats import formal, loop
from support.editing import AT, LATER, Record, begun, changed, statuses

# The formal format, which names one phase


def planning(at_phase="Design", **fields):
    return Record(formal, begun("planning", at_phase=at_phase, **fields))


def test_edit_of_the_number_alone_takes_the_known_name():
    record = planning()
    record.document["phase"]["current"] = 5
    state = record.parsed()
    assert state["phase"] == "Review"
    assert statuses(state) == ["completed"] * 3 + ["pending", "in_progress", "pending"]
    assert formal.render(state)[0]["phase"] == {
        "current": 5, "total": 6, "name": "Review", "status": "in_progress",
    }  # fmt: skip


def test_edit_of_the_name_alone_moves_to_the_phase_of_that_name():
    record = planning()
    record.document["phase"]["name"] = "Requirements"
    state = record.parsed()
    assert state["phase"] == "Requirements"
    assert statuses(state) == ["completed", "in_progress", *["pending"] * 4]


def test_edit_of_the_name_alone_renames_the_current_phase():
    record = planning()
    record.document["phase"]["name"] = "Architecture"
    state = record.parsed()
    assert state["phase"] == "Architecture"
    assert [phase["name"] for phase in state["phases"]][2:4] == ["Architecture", "Plan"]
    assert find_phase(state, "Architecture")["started_at"] == AT
    assert statuses(state) == statuses(record.state)


def test_edit_of_number_and_name_moves_and_renames():
    record = planning()
    record.document["phase"] |= {"current": 4, "name": "Write it down"}
    state = record.parsed()
    assert state["phase"] == "Write it down"
    assert [phase["name"] for phase in state["phases"]][2:5] == [
        "Design",
        "Write it down",
        "Review",
    ]
    assert statuses(state)[2:5] == ["completed", "in_progress", "pending"]


def test_edit_of_number_and_its_own_name_only_moves():
    record = planning()
    record.document["phase"] |= {"current": 4, "name": "Plan"}
    state = record.parsed()
    assert state["phase"] == "Plan"
    assert changed(record.state, state) == {"phase", "phases"}


@pytest.mark.parametrize("word", ["in_progress", "completed", "blocked"])
def test_status_goes_to_the_phase_that_is_named(word):
    record = planning()
    record.document["phase"] |= {"current": 4, "status": word}
    assert statuses(record.parsed())[3] == word or word == "in_progress"
    record = planning()
    record.document["phase"]["status"] = word
    assert statuses(record.parsed())[2] == word


def test_phase_that_is_next_and_not_started_is_not_current():
    record = planning()
    record.document["phase"]["status"] = "not_started"
    state = record.parsed()
    assert state["phase"] is None
    assert statuses(state)[2] == "pending"
    assert formal.render(state)[0]["phase"]["current"] == 3


def test_total_that_grows_adds_numbered_phases():
    record = planning()
    record.document["phase"] |= {"total": 8, "current": 7}
    state = record.parsed()
    assert [phase["name"] for phase in state["phases"]][5:] == ["Sign-off", "Phase 7", "Phase 8"]
    assert state["phase"] == "Phase 7"
    assert [phase["name"] for phase in state["recipe"]["phases"]][6:] == ["Phase 7", "Phase 8"]


def test_total_that_shrinks_drops_pending_phases():
    record = planning()
    record.document["phase"]["total"] = 4
    state = record.parsed()
    assert [phase["name"] for phase in state["phases"]] == [
        "Research", "Requirements", "Design", "Plan",
    ]  # fmt: skip
    assert state["phase"] == "Design"


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        ({"phase": {"total": 2}}, ["phase", "current"]),
        ({"phase": {"total": 2, "current": 2}}, None),
        ({"phase": {"total": 0, "current": 0}}, ["phase", "total"]),
        ({"phase": {"total": 10**12}}, ["phase", "total"]),
        ({"phase": {"current": 0}}, ["phase", "current"]),
        ({"phase": {"current": 2.0}}, ["phase", "current"]),
        ({"phase": {"total": 4, "name": "Review"}}, ["phase", "total"]),
        ({"phase": {"name": " "}}, ["phase", "name"]),
        ({"phase": {"current": 4, "name": "Review"}}, ["phase", "name"]),
        ({"phase": {"status": "done"}}, ["phase", "status"]),
        ({"required_reading": ["@a.md", "b.md"]}, ["required_reading", 1]),
        ({"key_reminders": [None]}, ["key_reminders", 0]),
        ({"created_at": "last week"}, ["created_at"]),
    ],
)
def test_formal_edit_that_makes_no_sense_is_named_by_its_place(edit, path):
    record = planning()
    for key, value in edit.items():
        record.document[key] = {**record.document[key], **value} if key == "phase" else value
    if path is None:
        # Going back first makes the dropped phases pending.
        assert len(record.parsed()["phases"]) == 2
    else:
        assert record.refused().path == path


def test_formal_document_of_another_tool_is_numbered_around_its_phase():
    record = planning()
    record.rest = {}
    record.document["phase"] = {"current": 2, "total": 3, "name": "Phase 1", "status": "blocked"}
    state = record.parsed()
    assert state["phases"] == [
        {"name": "Phase 1'", "status": "completed"},
        {"name": "Phase 1", "status": "blocked"},
        {"name": "Phase 3", "status": "pending"},
    ]


def test_formal_document_without_phases_is_a_workflow_without_phases():
    record = planning()
    record.rest = {}
    record.document["phase"] = {"current": 0, "total": 0}
    state = record.parsed()
    assert (state["phase"], state["phases"], state["recipe"]["phases"]) == (None, [], [])


def test_name_of_a_formal_workflow_is_its_title_and_subject_unless_they_differ():
    record = planning(title="Same", subject="Same")
    record.document["workflow"] = "New"
    assert (record.parsed()["title"], record.parsed()["subject"]) == ("New", "New")
    record = planning(title="One", subject="other")
    record.document["workflow"] = "New"
    assert (record.parsed()["title"], record.parsed()["subject"]) == ("New", "other")


# The loop format, whose units are tasks


def tasks():
    return [
        {"id": "T1", "description": "Cache the rates", "status": "completed", "iterations_used": 3},
        {
            "id": "T2",
            "description": "Refresh them",
            "criteria": "no request waits",
            "status": "in_progress",
            "iterations_used": 1,
            "max_iterations": 5,
        },
        {"id": "T3", "description": "Measure", "status": "pending", "depends": ["T2"]},
    ]


def development(at_phase="execute", **fields):
    fields = {"tasks": tasks(), "current_task": "T2", "subject": "rates"} | fields
    return Record(loop, begun("loop-development", at_phase=at_phase, **fields))


def test_titles_and_criteria_are_not_in_the_document_and_not_lost():
    record = development()
    assert record.document["tasks"]["T2"] == {
        "status": "in_progress", "iterations_used": 1, "max_iterations": 5,
    }  # fmt: skip
    assert record.parsed()["tasks"] == tasks()
    record.rest = {}
    assert [task["description"] for task in record.parsed()["tasks"]] == ["", "", ""]


def test_done_is_completed():
    record = development()
    assert record.document["tasks"]["T1"]["status"] == "done"
    record.document["tasks"]["T2"] |= {"status": "done", "verification_passed": True}
    assert find_task(record.parsed(), "T2")["status"] == "completed"
    record.document["tasks"]["T2"]["status"] = "completed"
    assert record.refused().path == ["tasks", "T2", "status"]


def test_unit_that_was_added_by_hand_is_a_task():
    record = development()
    record.document["tasks"]["T4"] = {"status": "pending", "max_iterations": 2}
    assert find_task(record.parsed(), "T4") == {
        "id": "T4", "description": "", "status": "pending", "max_iterations": 2,
    }  # fmt: skip


def test_current_unit_is_the_current_task():
    record = development()
    record.document["current_task"] = "T3"
    assert record.parsed()["current_task"] == "T3"
    record.document["current_task"] = None
    assert record.parsed()["current_task"] is None
    del record.document["current_task"]
    assert "current_task" not in record.parsed()
    record.document["current_task"] = "T9"
    assert record.refused().path == ["current_task"]


def test_iteration_is_the_one_that_the_current_unit_has_used():
    record = development()
    assert record.document["current_iteration"] == 1
    record.document["tasks"]["T2"]["iterations_used"] = 2
    state = record.parsed()
    assert loop.render(state)[0]["current_iteration"] == 2


def test_iteration_that_was_begun_is_shown_until_it_is_used():
    record = development()
    record.document["current_iteration"] = 2
    state = record.parsed()
    assert find_task(state, "T2")["iterations_used"] == 1
    assert loop.render(state)[0]["current_iteration"] == 2
    find_task(state, "T2")["iterations_used"] = 3
    assert loop.render(state)[0]["current_iteration"] == 3


def test_lifecycle_phase_set_alone_moves_there():
    record = development()
    record.document |= {"phase": "verify", "updated": LATER}
    state = record.parsed()
    assert state["phase"] == "verify"
    assert statuses(state) == ["completed"] * 3 + ["in_progress", "pending", "pending"]
    assert changed(record.state, state) == {"phase", "phases", "updated_at"}
    record.document["phase"] = "celebrate"
    assert record.refused().path == ["phase"]


def test_word_of_the_lifecycle_that_the_recipe_lacks_is_added():
    state = development("verify").state
    recipe = {**state["recipe"], "phases": state["recipe"]["phases"][:5]}
    record = Record(loop, {**state, "recipe": recipe, "phases": state["phases"][:5]})
    record.document["phase"] = "complete"
    state = record.parsed()
    assert state["phase"] == "complete"
    assert state["recipe"]["phases"][-1] == {"name": "complete"}
    record.document["phase"] = None
    assert record.parsed()["phase"] is None


def test_knowledge_mode_calls_its_units_phases():
    units = [{"id": "R1", "description": "Read", "status": "confirming"}]
    state = begun("loop-knowledge", at_phase="plan", tasks=units, current_task="R1")
    record = Record(loop, state | {"context": {"domain": "research", "depth": 2}})
    assert record.document["phases"] == {"R1": {"status": "confirming"}}
    assert record.document["current_phase"] == "R1"
    assert record.document["domain"] == "research"
    record.document["domain"] = "writing"
    assert record.parsed()["context"] == {"domain": "writing", "depth": 2}


def test_loop_of_another_tool_has_the_whole_lifecycle():
    record = development()
    record.rest = {}
    state = record.parsed()
    assert [phase["name"] for phase in state["recipe"]["phases"]] == list(loop.LIFECYCLE)
    assert statuses(state) == ["completed"] * 2 + ["in_progress"] + ["pending"] * 3
    assert (state["recipe"]["name"], state["recipe"]["mode"]) == ("loop-development", "development")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["mode"], "leisure"),
        (["tasks", "T1"], "done"),
        (["tasks", "T1"], {"id": "T2", "status": "done"}),
        (["tasks", "T1", "iterations_used"], "3"),
        (["tasks", "T1", "max_iterations"], -1),
        (["tasks", "T3", "depends"], ["T2", None]),
        (["commits"], "abc"),
        (["current_iteration"], 1.5),
        (["created"], "in spring"),
    ],
)
def test_loop_edit_that_makes_no_sense_is_named_by_its_place(path, value):
    record = development()
    target = record.document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert record.refused().path[: len(path)] == path

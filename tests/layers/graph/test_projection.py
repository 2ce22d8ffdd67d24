"""What states and events mean for a graph, in the very words that agents look for."""

import pytest

from holdfast.core.workflow import blank
from holdfast.layers.graph import mcp_delivery, projection
from holdfast.layers.graph.store import GraphStore

AT = "2026-02-11T14:00:00.000Z"
LATER = "2026-02-11T15:00:00.000Z"
PHASES = ("analyze", "plan", "implement", "review", "git-commit")


def a_workflow(number=1, recipe="apex", format_name="verb", **fields):
    made = {
        "name": recipe,
        "format": format_name,
        "phases": [{"name": name} for name in PHASES],
    }
    state = blank(f"{recipe}-{number}", made, AT)
    return {**state, "subject": f"the matter {number}", "updated_at": LATER, **fields}


def event(kind, data, at=AT):
    return {"type": kind, "data": data, "at": at, "stream": "s", "seq": 1}


def test_a_workflow_in_progress_says_type_position_start_and_context():
    made = projection.workflow_update(a_workflow(phase="implement"), in_slot=True)
    assert (made["name"], made["entityType"]) == ("workflow-state", "WorkflowState")
    assert made["observations"] == [
        "type: APEX",
        "phase: implement",
        "phase_index: 3/5",
        f"started: {AT}",
        "context: the matter 1",
        f"updated: {LATER}",
    ]


@pytest.mark.parametrize(
    ("status", "fields", "line"),
    [
        ("completed", {"completed_at": LATER}, f"status: completed at {LATER}"),
        ("abandoned", {}, f"status: abandoned at {LATER}"),
        ("expired", {}, f"status: expired at {LATER}"),
    ],
)
def test_a_workflow_that_ended_says_when(status, fields, line):
    state = a_workflow(phase="git-commit", status=status, **fields)
    assert line in projection.workflow_update(state, in_slot=True)["observations"]


def test_a_workflow_without_phases_has_no_position():
    state = {**a_workflow(), "phases": []}
    told = projection.workflow_update(state, in_slot=False)["observations"]
    assert not [line for line in told if line.startswith("phase")]


def test_other_workflows_go_by_their_id():
    other = projection.workflow_update(a_workflow(2, "dev", "skill"), in_slot=False)
    assert other["name"] == "workflow-state:dev-2"


@pytest.mark.parametrize(
    ("state", "fits"),
    [
        (a_workflow(), True),
        (a_workflow(2, "dev", "skill"), False),
        (a_workflow(3, worktree="side"), False),
        (a_workflow(4, "planning", "formal"), False),
    ],
)
def test_only_a_verb_workflow_of_the_main_worktree_fits_the_place(state, fits):
    assert projection.fits_slot(state) is fits


def test_the_newest_interview_replaces_the_one_before():
    data = {
        "skill": "x-plan",
        "confidence": 0.82,
        "dimensions": {"clarity": 0.9},
        "questions_asked": 3,
    }
    (made,) = projection.event_updates(event("interview_recorded", data))
    assert (made["name"], made["entityType"]) == ("interview-state", "InterviewState")
    assert made["observations"] == [
        "skill: x-plan",
        "confidence: 0.82",
        'dimensions: {"clarity":0.9}',
        "questions_asked: 3",
        f"timestamp: {AT}",
    ]
    later = projection.event_updates(event("interview_recorded", {**data, "confidence": 1}, LATER))
    (merged,) = projection.merge_updates([made, *later])
    assert merged["observations"][1] == "confidence: 1"


@pytest.mark.parametrize(
    ("kind", "data", "texts"),
    [
        (
            "delegation_recorded",
            {
                "agent": "tester",
                "model": "small",
                "task_type": "unit tests",
                "complexity": "low",
                "outcome": "success",
                "duration_ms": 1200,
            },
            [f"delegation: tester (small) for unit tests [low] -> success (1200ms) at {AT}"],
        ),
        (
            "delegation_escalated",
            {"from": "a", "to": "b", "reason": "stuck"},
            ["escalated: a -> b, reason: stuck"],
        ),
        (
            "delegation_escalated",
            {"from": "a", "to": "b", "reason": "stuck", "resolved": True},
            [
                "escalated: a -> b, reason: stuck",
                f"escalation_outcome: a -> b, resolved: true, reason: stuck at {AT}",
            ],
        ),
        (
            "delegation_overridden",
            {"suggested": "a", "chosen": "b"},
            ["user_override: suggested a, user chose b"],
        ),
        (
            "routing_corrected",
            {"suggested": "APEX", "chosen": "ONESHOT", "intent": "a fix"},
            [f"routing_correction: suggested APEX, user chose ONESHOT for a fix at {AT}"],
        ),
        (
            "interview_skipped",
            {"skill": "x-plan", "reason": "no time"},
            [f"interview_skip: x-plan, user said: no time at {AT}"],
        ),
    ],
)
def test_the_log_of_delegations_is_added_to_sentence_by_sentence(kind, data, texts):
    (made,) = projection.event_updates(event(kind, data))
    assert (made["name"], made["entityType"]) == ("delegation-log", "DelegationRecord")
    assert made["replaces"] == ()
    assert made["observations"] == texts


def test_records_that_were_adopted_are_told_whole():
    entries = [
        {"agent": "a", "outcome": "ok", "timestamp": AT},
        {"kind": "override", "suggested": "a", "chosen": "b", "timestamp": AT},
    ]
    adopted = projection.log_updates({"entries": entries})
    assert [one["observations"][0][:10] for one in adopted] == ["delegation", "user_overr"]
    (made,) = projection.log_updates({"interviews": [{"skill": "one"}, {"skill": "two"}]})
    assert made["observations"][0] == "skill: two"


def test_an_event_of_a_workflow_means_nothing_by_itself():
    assert projection.event_updates(event("phase_started", {"phase": "plan"})) == []


# Carrying it out


def operation(name, *observations, replaces=("a: ", "b: ")):
    return {
        "name": name,
        "entityType": "T",
        "replaces": replaces,
        "observations": list(observations),
    }


def observed(store, name):
    return store.open_nodes([name])["entities"][0]["observations"]


def test_current_values_replace_old_ones_and_nothing_else(store):
    assert mcp_delivery.apply_updates(store, [operation("x", "a: 1", "b: 1")], []) == 1
    store.add_observations([{"entityName": "x", "contents": ["a note of mine", "c: 1"]}])
    assert mcp_delivery.apply_updates(store, [operation("x", "a: 1", "b: 2")], []) == 1
    assert observed(store, "x") == ["a: 1", "a note of mine", "c: 1", "b: 2"]
    assert mcp_delivery.apply_updates(store, [operation("x", "a: 1", "b: 2")], []) == 0
    mcp_delivery.apply_updates(store, [operation("x", "a: 1")], [])
    assert observed(store, "x") == ["a: 1", "a note of mine", "c: 1"]


def test_a_history_is_added_to_once(store):
    for _ in range(2):
        mcp_delivery.apply_updates(store, [operation("log", "one", "two", "one", replaces=())], [])
    mcp_delivery.apply_updates(store, [operation("log", "two", "three", replaces=())], [])
    assert observed(store, "log") == ["one", "two", "three"]


def test_an_entity_that_is_none_any_more_goes_with_its_relations_only_if_it_is_there(store):
    store.create_relations([{"from": "gone", "to": "x", "relationType": "r"}])
    mcp_delivery.apply_updates(store, [], ["gone"])
    assert store.read_graph()["relations"]
    mcp_delivery.apply_updates(store, [operation("gone", "a: 1")], [])
    assert mcp_delivery.apply_updates(store, [], ["gone"]) == 1
    assert store.read_graph() == {"entities": [], "relations": []}


@pytest.mark.parametrize("killed_after", range(4))
def test_repeated_after_a_kill_at_any_call_it_comes_out_the_same(path, killed_after):
    class Killed(Exception):
        pass

    class Dying:
        def __init__(self, store):
            self.store, self.left = store, killed_after

        def __getattr__(self, name):
            def call(argument):
                if self.left == 0:
                    raise Killed
                self.left -= 1
                return getattr(self.store, name)(argument)

            return call

    wanted = [operation("x", "a: 1", "b: 3"), operation("y", "a: 1")]
    wanted.append(operation("log", "one", "two", replaces=()))
    with GraphStore(path) as store:
        before = [operation("x", "a: 1", "b: 1"), operation("log", "one")]
        mcp_delivery.apply_updates(store, before, [])
        try:
            mcp_delivery.apply_updates(Dying(store), wanted, [])
        except Killed:
            pass
        mcp_delivery.apply_updates(store, wanted, [])
        assert observed(store, "x") == ["a: 1", "b: 3"]
        assert observed(store, "log") == ["one", "two"]
        assert mcp_delivery.apply_updates(store, wanted, []) == 0

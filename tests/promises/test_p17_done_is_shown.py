"""What was not done cannot be completed without a word: an adversary that tries every command.

It plays in the core alone, on every recipe that asks for something. It claims, edits the record,
skips, removes, undoes and forces as it likes, but it runs nothing, makes no commit, and is no
person. Whatever it does, the line that ends the workflow says so.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.workflow import is_active
from holdfast.core.workflow.lifecycle import completion_signal, pending
from support.workflow_desk import HEAD, Desk

pytestmark = pytest.mark.promise(17)

RECIPES = ("dev", "tdd", "apex", "debug", "oneshot", "implementation", "qa-loop", "planning")
"""Shipped recipes that ask for a run, a commit or an approval."""
FACTS = {"git": True, "branch": "feat/x", "is_main": False, "head": HEAD}

words = st.sampled_from(["one", "two"])
numbers = st.integers(1, 3)
steps = st.sampled_from(["red", "green", "refactor"])
names = st.integers(0, 5)
CLAIM = {"last_result": "passed", "evidence": "claim", "test_command": "pytest"}
COMMANDS = {
    "add_tasks": {"tasks": st.lists(words.map(lambda text: {"text": text}), min_size=1)},
    "start_task": {"task": numbers},
    "start_task_phase": {"task": numbers, "phase": steps, "force": st.booleans()},
    "complete_task": {"task": numbers, "commit": st.just(HEAD), "force": st.booleans()},
    "remove_task": {"task": numbers},
    "reopen_task": {"task": numbers},
    "enter_step": {"step": steps, "force": st.booleans()},
    "record_commit": {"commit": st.just(HEAD)},
    "advance": {"force": st.booleans()},
    "start_phase": {"phase": names, "force": st.booleans()},
    "complete_phase": {"phase": names},
    "skip_phase": {"phase": names},
    "record_gate": {"gate": names, "passed": st.booleans()},
    "record_tests": {"tests": st.just(CLAIM)},
    "complete_workflow": {"force": st.booleans()},
    "resume_workflow": {},
}


PENDING = {"status": "pending"}
WAIVED = {"status": "waived"}
PASSED = {"status": "completed", "passed": True, "evidence": "run", "exit_code": 0, "tree": "t"}
EDITS = {
    "gates pass": lambda state: {"gates": dict.fromkeys(state["gates"], PASSED)},
    "gates are waived": lambda state: {"gates": dict.fromkeys(state["gates"], WAIVED)},
    "no gates": lambda state: {"gates": {}, "recipe": {**state["recipe"], "gates": {}}},
    "no needs": lambda state: {
        "recipe": {**state["recipe"], "phases": [{"name": p["name"]} for p in state["phases"]]}
    },
    "no phases": lambda state: {
        "phase": None,
        "phases": [],
        "recipe": {**state["recipe"], "phases": []},
    },
    "the last phase": lambda state: {
        "phase": state["phases"][-1]["name"] if state["phases"] else None,
        "phases": [{**phase, "status": "completed"} for phase in state["phases"]],
    },
    "approved": lambda state: {
        "phases": [{**phase, "approved": True} for phase in state["phases"]]
    },
    "unclaimed": lambda state: {
        "phases": [{k: v for k, v in p.items() if k != "claimed"} for p in state["phases"]],
        "removed_tasks": [],
    },
    "other names": lambda state: {
        "phase": state["phase"] and f"{state['phase']}!",
        "phases": [{**phase, "name": f"{phase['name']}!"} for phase in state["phases"]],
    },
    "no tasks": lambda _state: {"tasks": []},
    "tasks are done": lambda state: {
        "tasks": [{**task, "status": "completed"} for task in state["tasks"]]
    },
    "tests passed": lambda state: {"tests": {**CLAIM, "evidence": "run", "ran_in": state["phase"]}},
    "tests failed": lambda state: {
        "tests": {**CLAIM, "evidence": "run", "last_result": "failed", "ran_in": state["phase"]}
    },
    "another name": lambda state: {"recipe": {**state["recipe"], "name": "dev"}},
    "no base": lambda _state: {"base": None, "branch": None},
    "only the phase": lambda state: {
        "phase": state["phases"][-1]["name"] if state["phases"] else None
    },
    "phases of tasks": lambda state: {
        "tasks": [
            {**task, "phases": dict.fromkeys(("red", "green", "refactor"), "completed")}
            for task in state["tasks"]
        ]
    },
    "gates forget": lambda state: {"gates": dict.fromkeys(state["gates"], PENDING)},
    "commits": lambda _state: {"commits": [f"{HEAD}: all of it"]},
}
WAY, ADOPT = "as far as it goes", "adopt the record"
attempts = st.one_of(
    st.sampled_from([(WAY, None), (ADOPT, None)]),
    st.sampled_from(sorted(EDITS)).map(lambda name: (name, None)),
    st.sampled_from(sorted(COMMANDS)).flatmap(
        lambda kind: st.tuples(st.just(kind), st.fixed_dictionaries(COMMANDS[kind]))
    ),
)


def attempt(desk, kind, args):
    """Let the adversary try one thing; a refusal is an answer, too."""
    if kind == WAY:
        for task in desk.state["tasks"]:
            desk.do("complete_task", task=task["id"])
        for gate in desk.state["gates"]:
            desk.do("record_gate", gate=gate, passed=True)
        while desk.do("advance") is None:
            pass
        return
    if kind == ADOPT:
        desk.do("adopt_record", state=desk.state)
        return
    if args is None:
        fields = EDITS[kind](desk.state)
        changes = [[[name], desk.state.get(name), value] for name, value in fields.items()]
        desk.do("adopt_edit", changes=changes, base=1)
        return
    named = {"phase": desk.state["phases"], "gate": [{"name": n} for n in desk.state["gates"]]}
    for name, entries in named.items():
        if isinstance(args.get(name), int):
            if not entries:
                return
            args = {**args, name: entries[args[name] % len(entries)]["name"]}
    desk.do(kind, **{"reason": "because", **args})


@settings(max_examples=1_000)
@given(st.sampled_from(RECIPES), st.lists(attempts, max_size=14))
def test_whatever_is_not_shown_is_named_when_it_ends(recipe, tried):
    desk = Desk(recipe, tasks=[{"text": "one"}])
    desk.facts = FACTS
    for kind, args in [*tried, ("complete_workflow", {})]:
        skipped = pending(desk.state, desk.facts)
        was_active = is_active(desk.state)
        attempt(desk, kind, args)
        if was_active and desk.state["status"] == "completed":
            signal = completion_signal(desk.state, desk.state.get("skipped", {}))
            assert signal.endswith(")"), (signal, skipped)

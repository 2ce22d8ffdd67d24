"""Adopt a record that came from elsewhere, or an edit of one: what either can change.

A record is a file, and anybody can write anything into it. So an edit can change what was done, but
not what the recipe asks for: gates, needs and the phases that have needs stay. Only Holdfast knows
what it ran, so results of gates and tests that a record brings are claims. An approval or a waiver
needs a person, so those are dropped. A phase that an edit completes although it lacks something is
marked as claimed, and a task that it removes is remembered: the line that ends the workflow names
both.
"""

from __future__ import annotations

from holdfast.core import diff
from holdfast.core.workflow import decides, evolves, find_phase, find_task, opens, with_phase
from holdfast.core.workflow.evidence import (
    OF_ONE_RUN,
    OF_ONE_TEST_RUN,
    ONLY_RUN,
    OWN_GATE_FIELDS,
    replaced_command,
)
from holdfast.core.workflow.needs import CLAIM, RUN, WAIVED, needs_of, unmet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.types import Draft, Fields, Json, Phase, Recipe, RecipePhase, Task, Workflow

_RULES = ("name", "gates", "task_needs", "task_phases", "differs")
"""Keys of a recipe that no edit changes. ``phases`` are compared one by one."""
_REMOVED = "removed by an edit"
"""The reason of a phase that was passed over and removed."""
_ADOPTED = "from a record"
"""How the recipe of an adopted record differs from a shipped one: nobody knows."""


@decides("adopt_edit", after_end=True)
def adopt_edit(state: Workflow, args: Fields) -> list[Draft]:
    """Adopt an edit of the record. ``kept`` names the phases that it cannot remove."""
    edited: Workflow = diff.apply(state, args["changes"])  # type: ignore[arg-type, assignment]
    allowed = with_claims(state, edited)
    corrections = diff.diff(edited, allowed)  # type: ignore[arg-type]
    data = {**args, "changes": [*args["changes"], *corrections]}
    kept = [phase["name"] for phase in allowed["phases"] if not find_phase(edited, phase["name"])]
    return [{"type": "record_edited", "data": {**data, "kept": kept} if kept else data}]


@evolves("record_edited")
def _edited(state: Workflow, data: Fields, _at: str) -> Workflow:
    return diff.apply(state, data["changes"])  # type: ignore[arg-type, return-value]


@opens("adopt_record")
def adopt_record(_state: Workflow | None, args: Fields) -> list[Draft]:
    """Adopt a record. ``active_at`` is when the workflow was last active, as the record has it."""
    state = as_adopted(args["state"])
    data = {**args, "state": state, "active_at": state["updated_at"]}
    return [{"type": "record_adopted", "data": data}]


def as_adopted(state: Workflow) -> Workflow:
    """Return the state of a record that came from elsewhere, as far as it is believed.

    Its recipe came with it, and says so.
    """
    after = as_imported(None, state)
    after["recipe"] = {**state["recipe"], "differs": _ADOPTED}
    return after


def is_adopted(state: Workflow) -> bool:
    """Return whether the workflow came with a record from elsewhere."""
    return state["recipe"].get("differs") == _ADOPTED


def as_imported(before: Workflow | None, state: Workflow) -> Workflow:
    """Return a state that came from elsewhere, as far as it is believed.

    ``before`` is the state that was here; ``None`` if there was none. The session that held the
    workflow there is nobody's here.
    """
    after = with_claims(before, state)
    if before is None:
        after = _with_believed_phases(None, after)
    return {**after, "session": None if before is None else before["session"]}


def with_claims(before: Workflow | None, edited: Workflow) -> Workflow:
    """Return a state that another writer made, as far as it is believed.

    ``before`` is the state that was edited; ``None`` if there was none.
    """
    was: Fields = {} if before is None else before  # type: ignore[assignment]
    gates_before = was.get("gates", {})
    gates = {
        name: gate
        if _is_same(gates_before.get(name, {}), gate, OWN_GATE_FIELDS)
        else _claimed_gate(gates_before.get(name, {}), gate)
        for name, gate in edited["gates"].items()
    }
    tests = _claimed_tests(was.get("tests", {}), edited["tests"])
    after: Workflow = {**edited, "gates": gates, "tests": tests}
    if before is None:
        return after
    return _with_believed_phases(before, _with_rules(before, after))


def _is_same(was: Fields, now: Fields, fields: tuple[str, ...]) -> bool:
    return all(was.get(name) == now.get(name) for name in fields)


def _claimed_gate(before: Fields, gate: Fields) -> Fields:
    """Return a gate that another writer changed: a claim, and no waiver.

    The command that failed is kept, as if this result took its place.
    """
    is_done = gate.get("status") == "completed"
    lasting = {key: value for key, value in gate.items() if key not in OF_ONE_RUN}
    failed = replaced_command(before, "")
    if failed is not None:
        lasting["instead_of"] = failed
    if gate.get("status") == WAIVED:
        return {**lasting, "status": "pending"}
    return {**lasting, "evidence": CLAIM} if is_done else lasting


def _claimed_tests(was: Fields, tests: Fields) -> Fields:
    """Return edited test results, as a claim if they differ. What showed a failing test stays."""
    failure = {"failure": was["failure"]} if "failure" in was else {}
    tests = {**{key: value for key, value in tests.items() if key != "failure"}, **failure}
    if tests.get("evidence") != RUN or _is_same(was, tests, OF_ONE_TEST_RUN):
        return tests
    return {**{k: v for k, v in tests.items() if k not in ONLY_RUN}, "evidence": CLAIM}


def _with_rules(before: Workflow, edited: Workflow) -> Workflow:
    """Return an edited state with what the recipe asks for as it was."""
    recipe: Recipe = {**edited["recipe"]}
    for key in _RULES:
        recipe.pop(key, None)  # type: ignore[misc]
        if key in before["recipe"]:
            recipe[key] = before["recipe"][key]  # type: ignore[literal-required]
    declared = before["recipe"].get("gates", {})
    dropped = [name for name in declared if name not in edited["gates"]]
    gates = {name: before["gates"][name] for name in dropped if name in before["gates"]}
    after: Workflow = {**edited, "recipe": recipe, "gates": {**gates, **edited["gates"]}}
    if "base" in before:
        after["base"] = before["base"]
    gone = _missing_in(after["tasks"], before["tasks"], "id")
    removed = [str(task["id"]) for task in gone if task["status"] != "completed"]
    after["removed_tasks"] = [*before.get("removed_tasks", []), *removed]
    if not after["removed_tasks"]:
        del after["removed_tasks"]
    if "task_needs" in recipe:
        after["tasks"] = [_believed_task(find_task(before, t["id"]), t) for t in after["tasks"]]
    return _with_own_phases(before, after)


def _believed_task(was: Task | None, task: Task) -> Task:
    """Return a task; as claimed if an edit completed it or one of its phases."""
    before = {} if was is None else was.get("phases", {})
    new = [status for n, status in task.get("phases", {}).items() if status != before.get(n)]
    if "phases" not in task and (was is None or was["status"] != task["status"]):
        new.append(task["status"])
    if "completed" not in new:
        return task
    claimed: Task = {**task, "claimed": True}
    return claimed


def _with_own_phases(before: Workflow, edited: Workflow) -> Workflow:
    """Return an edited state with the phases that have needs, and with the rules of all phases."""
    own = {phase["name"]: phase for phase in before["recipe"]["phases"]}
    new = {phase["name"]: phase for phase in edited["recipe"]["phases"]}
    names = [phase["name"] for phase in edited["phases"]]
    current = names.index(edited["phase"]) if edited["phase"] in names else -1
    phases = list(edited["phases"])
    renamed: dict[str, str] = {}
    for phase in _missing_in(phases, before["phases"], "name"):
        name = phase["name"]
        free = [n for n in new if n not in own and n not in renamed.values()]
        alias = next((n for n in free if _is_same_rule(new[n], own.get(name))), None)
        if alias is not None:
            renamed[name] = alias
        elif needs_of(before, name):
            position = min(before["phases"].index(phase), len(phases))
            is_passed_over = position <= current and phase["status"] != "completed"
            current += position <= current
            skipped: Fields = {"status": "skipped", "reason": _REMOVED} if is_passed_over else {}
            phases.insert(position, {**phase, **skipped})  # type: ignore[typeddict-item]
    rules = new | {renamed.get(name, name): _under_other_names(own[name], renamed) for name in own}
    phase_names = {phase["name"] for phase in phases}
    declared = [among(rules.get(p["name"], {"name": p["name"]}), phase_names) for p in phases]
    recipe: Recipe = {**edited["recipe"], "phases": declared}
    if "cycles_at" in before["recipe"]:
        recipe["cycles_at"] = _renamed(before["recipe"]["cycles_at"], renamed)
    after: Workflow = {**edited, "recipe": recipe, "phases": phases}
    if edited["phase"] not in phase_names and before["phase"] in phase_names:
        after["phase"] = before["phase"]
    return after


def _is_same_rule(phase: RecipePhase, own: RecipePhase | None) -> bool:
    """Return whether two phases of a recipe differ in nothing but their names."""
    return own is not None and {**phase, "name": own["name"]} == own


def _renamed(name: str, renamed: dict[str, str]) -> str:
    return renamed.get(name, name)


def _under_other_names(phase: RecipePhase, renamed: dict[str, str]) -> RecipePhase:
    changed: RecipePhase = {**phase, "name": _renamed(phase["name"], renamed)}
    if "next" in phase:
        changed["next"] = [_renamed(name, renamed) for name in phase["next"]]
    return changed


def among(phase: RecipePhase, names: set[str]) -> RecipePhase:
    """Return a phase of a recipe that leads only to phases which exist."""
    following = [name for name in phase.get("next", []) if name in names]
    if following == phase.get("next", []):
        return phase
    changed: Json = {key: value for key, value in phase.items() if key != "next"}
    if following:
        changed["next"] = following
    among: RecipePhase = changed
    return among


def _with_believed_phases(before: Workflow | None, edited: Workflow) -> Workflow:
    """Return an edited state without its new approvals, and with completed phases as claims."""
    after = edited
    for phase in edited["phases"]:
        was = None if before is None else find_phase(before, phase["name"])
        if phase.get("approved") and not (was is not None and was.get("approved")):
            after = with_phase(after, phase["name"], {"approved": None})
    for phase in edited["phases"]:
        was = None if before is None else find_phase(before, phase["name"])
        is_claimed = phase["status"] == "completed" and _is_claimed(was, after, phase)
        if is_claimed != bool(phase.get("claimed")):
            after = with_phase(after, phase["name"], {"claimed": is_claimed or None})
    return after


def _missing_in(now: list[Any], before: list[Any], key: str) -> list[Any]:
    """Return the entries of a list that an edit removed."""
    kept = {str(entry[key]) for entry in now}
    return [entry for entry in before if str(entry[key]) not in kept]


def _is_claimed(was: Phase | None, after: Workflow, phase: Phase) -> bool:
    """Return whether an edit completed a phase that lacked something, now or earlier.

    What a phase needs of git is not looked up for an edit, so it counts as missing.
    """
    if was is not None and was["status"] == "completed":
        return bool(was.get("claimed") or phase.get("claimed"))
    if {"branch", "commit"} & set(needs_of(after, phase["name"])):
        return True
    at_phase: Workflow = {**after, "phase": phase["name"]}
    return bool(unmet(with_phase(at_phase, phase["name"], {"status": "in_progress"})))

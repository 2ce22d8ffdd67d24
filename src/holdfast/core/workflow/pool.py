"""What a pool of work needs to know of a workflow: its labels, and which workflows come before it.

Who holds a workflow is no part of its state: that is a lease (``keeper/leases.py``).
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal
from holdfast.core.workflow import decides, evolves, is_active
from holdfast.core.workflow.needs import needs_of, unmet
from holdfast.core.workflow.questions import blocking_questions
from holdfast.core.workflow.tasks import waits_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.core.workflow import Decision

MAX_NAMES = 100
"""The maximum number of labels of a workflow, and of workflows that it comes after."""
_MAX_CHARACTERS = 80
_LISTS = ("labels", "after")
_STUCK = ("blocked", "timeout")
"""The statuses of tasks that wait for a person."""


def is_name(text: object) -> bool:
    """Return whether a text can be a label, or the name of a workflow."""
    if not isinstance(text, str) or not 0 < len(text) <= _MAX_CHARACTERS:
        return False
    return text.isprintable() and " " not in text and text[0] != "-"


def bad_names(tried: str, what: str, names: object) -> Refusal | None:
    """Return a refusal if one of these is no label, or no name of a workflow."""
    known = names if isinstance(names, list) else [names]
    bad = [name for name in known if not is_name(name)]
    if bad:
        why = f"{tried}: {str(bad[0])[:40]!r} is no {what}"
        return Refusal("invalid", why, f"give one word of up to {_MAX_CHARACTERS} characters")
    if len(known) > MAX_NAMES:
        why = f"{tried}: {len(known)} are too many; the limit is {MAX_NAMES}"
        return Refusal("too_many", why, "leave some out")
    return None


@decides("change_pool")
def change_pool(state: Workflow, args: Fields) -> Decision:
    """Add and remove labels, and workflows that have to be completed first.

    What is there already, or is not there any more, is left out: another replica may have done it.
    """
    tried, data = "pool change", {}
    for name, what in zip(_LISTS, ("label", "workflow"), strict=True):
        added, removed = args.get(name) or [], args.get(f"no_{name}") or []
        if refusal := bad_names(tried, what, added) or bad_names(tried, what, removed):
            return refusal
        before: list[str] = list(state.get(name, ()))  # type: ignore[call-overload]
        after = [one for one in dict.fromkeys([*before, *added]) if one not in removed]
        if len(after) > MAX_NAMES:
            return bad_names(tried, what, after) or []
        if after != before:
            data[name] = after
    if state["id"] in data.get("after", ()):
        why = f"{tried}: {state['id']} cannot come after itself"
        return Refusal("wrong_order", why, "holdfast pool ready")
    return [{"type": "pool_changed", "data": data}] if data else []


@evolves("pool_changed")
def _changed(state: Workflow, data: Fields, _at: str) -> Workflow:
    after: Workflow = {**state}
    for name in _LISTS:
        if data.get(name):
            after[name] = list(data[name])  # type: ignore[literal-required]
        elif name in data:
            after.pop(name, None)  # type: ignore[misc]
    return after


def is_workable(state: Workflow) -> bool:
    """Return whether an agent can do something now, without a person.

    There is nothing to do while the phase is blocked, lacks only an approval or waits for an
    answer, and while every open task is blocked or waits for one that is.
    """
    if not is_active(state) or state["status"] == "blocked" or blocking_questions(state):
        return False
    open_tasks = [task for task in state["tasks"] if task["status"] != "completed"]
    if open_tasks:
        return any(
            task["status"] not in _STUCK and not waits_for(state, task) for task in open_tasks
        )
    # What has to be looked up in git counts as missing: an agent may have it to do.
    looked_up = {"branch", "commit"} & set(needs_of(state, state["phase"]))
    return bool(looked_up) or list(unmet(state)) != ["approval"]


def find_circle(name: str, after: list[str], after_of: Callable[[str], list[str]]) -> list[str]:
    """Return the workflows through which one would come after itself; an empty list if none.

    ``after_of`` returns the workflows that another one comes after.
    """
    ways = [[one] for one in after]
    seen: set[str] = set()
    while ways:
        way = ways.pop(0)
        if way[-1] == name:
            return [name, *way]
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, one] for one in after_of(way[-1])]
    return []

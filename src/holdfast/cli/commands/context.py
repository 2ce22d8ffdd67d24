"""``holdfast context``: all that is going on here, and which layers know of it."""

from __future__ import annotations

from holdfast.cli.commands.logs import page
from holdfast.keeper.initiative_link import initiative_view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.core.types import Fields
    from holdfast.keeper import Keeper

_LEARNINGS = 5


def context(keeper: Keeper, _args: Arguments) -> Answer:
    # The layers come first: a look at the workflows heals what it finds.
    found, notes = keeper.context()
    rows, noticed = keeper.workflows()
    interviews = keeper.interviews().show()["interviews"]
    delegations = keeper.delegations().list()
    learnings = keeper.learnings()
    fields = {
        **found,
        "workflows": [_row(row) for row in rows],
        "initiative": _initiative(keeper),
        "interview": interviews[-1] if interviews else None,
        "delegations": delegations["summary"] if delegations["entries"] else None,
        "learnings": list(reversed(learnings))[:_LEARNINGS],
    }
    return page("context", fields, [*notes, *noticed, *keeper.noticed()])


def _initiative(keeper: Keeper) -> Fields | None:
    state = keeper.initiatives().all()
    one = state["all"].get(state["current"] or "")
    return None if one is None else initiative_view(str(state["current"]), one)


_SHOWN = (
    "id", "recipe", "title", "status", "phase", "phase_index", "phase_total", "tasks_done",
    "tasks_total", "branch", "worktree", "updated_at",
)  # fmt: skip


def _row(row: dict[str, object]) -> dict[str, object]:
    return {name: row[name] for name in _SHOWN}

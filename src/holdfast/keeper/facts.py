"""Facts outside the ledger that a change or a next step needs: git, settings, the work tree.

The core is pure, so these facts come to it in the command. Reading the work tree takes git a while,
so it is read only where a gate that was run may be stale.
"""

from __future__ import annotations

from holdfast.core.selection import whereabouts
from holdfast.core.workflow import is_active, next_phases, remaining_phases
from holdfast.core.workflow.needs import (
    CHECK,
    PULL_REQUEST,
    evidence_of,
    gates_of,
    is_passed,
    needs_of,
    was_run,
)
from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow
    from holdfast.workspace.location import Workspace


_MAX_COMMITS = 500
"""The number of newest commits of a loop that git is asked for."""
_OF_TREE = ("gates", "commit")
"""What a run may no longer show if files have changed since."""


class Facts:
    """Read the facts of one workspace as they are now."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def of_change(self, state: Workflow, *, reads_tree: bool = True) -> Fields:
        """Return the facts that a change depends on; ``tree`` only if a gate was run."""
        facts = self.of_git(state)
        tree = self.tree(state) if reads_tree else None
        return facts if tree is None else {**facts, "tree": tree}

    def of_leaving(self, state: Workflow, phases: list[str]) -> Fields:
        """Return the facts that leaving these phases depends on."""
        asks = any(need in _OF_TREE for name in phases for need in needs_of(state, name))
        return self.of_change(state, reads_tree=asks)

    def of_next_step(self, state: Workflow, tree: str | None = None) -> Fields | None:
        """Return the facts that the next step depends on; ``None`` if on none.

        ``tree`` is the work tree's digest, if it was read for the same answer.
        """
        phase = state["phase"]
        nearby = [] if phase is None else [phase, *next_phases(state, phase)[:1]]
        needs = [need for name in nearby for need in needs_of(state, name)]
        facts: Fields = {}
        if state["worktree"] != self._workspace.name:
            root = self._workspace.root_of(state["worktree"])
            facts["elsewhere"] = whereabouts(state["worktree"], root)
        if "branch" in needs or "commit" in needs:
            facts |= self.of_git(state)
        if "gates" in needs:
            facts["commands"] = self.gate_commands()
        if any(need in _OF_TREE for need in needs) or not remaining_phases(state):
            tree = tree or self.tree(state)
            facts |= {} if tree is None else {"tree": tree}
        if _awaits_pull_request(state, nearby):
            from holdfast.evidence import git

            facts |= {"github": True} if git.has_github(self._workspace.root) else {}
        if "notes_file" in state:
            from holdfast.adopt.unknown_workflows import over_reason

            facts["notes_over"] = over_reason(self._workspace, state)
        return facts or None

    def of_git(self, state: Workflow) -> Fields:
        """Return what a phase may need of git. The commit must follow the workflow's base."""
        facts, base = self._workspace.facts(), state.get("base")
        if facts.get("head") in (None, base):
            return facts
        if any("commit" in phase.get("needs", ()) for phase in state["recipe"]["phases"]):
            from holdfast.evidence import git

            if base and not git.is_descendant(self._workspace.root, facts["head"], base):
                facts["head"] = None
        return facts

    def lost_commits(self, state: Workflow) -> list[str]:
        """Return a sentence for each commit of a loop that git no longer has."""
        if not state["commits"] or state["recipe"]["format"] != "loop" or not is_active(state):
            return []
        if self._workspace.git is None:
            return []
        from holdfast.evidence import git

        lines = {line.partition(":")[0]: line for line in state["commits"][-_MAX_COMMITS:]}
        lost = git.lost_commits(self._workspace.root, list(lines))
        remedy = f"holdfast loop rebuild {state['subject']} leaves it out"
        return [f"git no longer has the commit {lines[commit][:80]}; {remedy}" for commit in lost]

    def gate_commands(self) -> list[str]:
        """Return the names of the gates that have a command in the settings."""
        if not self._workspace.has_settings():
            return []
        from holdfast.workspace import settings

        try:
            return settings.load(self._workspace.root).gate_names()
        except HoldfastError:
            return []  # Commands that need the settings say what is wrong with them.

    def tree(self, state: Workflow) -> str | None:
        """Return the work tree's digest; ``None`` if no gate depends on it."""
        if not (is_active(state) and was_run(state)):
            return None
        from holdfast.evidence import tree

        return tree.digest_of(tree.read(self._workspace))


def _awaits_pull_request(state: Workflow, phases: list[str]) -> bool:
    """Return whether one of these phases has the gate for a pull request that is not there yet."""
    if PULL_REQUEST not in state["gates"] or evidence_of(state, PULL_REQUEST) != CHECK:
        return False
    has_gate = any(PULL_REQUEST in gates_of(state, name) for name in phases)
    return has_gate and not is_passed(state, PULL_REQUEST)

"""Read the repositories that are watched, each again only after something in it was written.

Whether something was, the file system says: nothing is opened for that. What changes without a
change of the ledger, such as an expiry or a gate that files have made stale, is seen after
``_MAX_AGE_MS``. A repository that cannot be read keeps its last view, with the reason.
"""

from __future__ import annotations

import os

from holdfast.core.next_step import next_step
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.workspace.location import names_in
from holdfast.workspace.repositories import short_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.next_step import NextStep
    from holdfast.core.types import Fields, Workflow
    from holdfast.keeper import Keeper
    from holdfast.workspace.location import Workspace

    Pick = tuple[str, str]
    """A workflow: the root of its repository, and its id."""

_MAX_EVENTS = 20
_MAX_AGE_MS = 60_000
_LIST_AGE_MS = 5_000
"""The time after which the list of repositories is read again."""
_MAX_OPEN = 12
"""The number of ledgers that are kept open, beside those that were written."""
_MAX_FACTS = 30
"""The number of workflows whose next step asks git, the newest."""
_OWN_FILES = ("lock", "-wal", "-shm", "-journal")
"""Suffixes of files in the ledger's folder to ignore, because reading changes them too."""


class Poller:
    """Reads one repository. ``open_keeper`` returns its keeper, which may have been open."""

    def __init__(
        self, workspace: Workspace, open_keeper: Callable[[], Keeper], workflow: str | None = None
    ) -> None:
        self.workspace = workspace
        self.name = short_names([workspace.root])[workspace.root]
        self.open_keeper = open_keeper
        self._workflow = workflow
        self._signs: list[object] = []
        self._records: list[str] = []

    def poll(self) -> Fields:
        """Return all that is shown; raise ``Refused`` if the folder is gone."""
        before = self._read_signs()
        workspace = self.workspace
        if not os.path.isdir(workspace.root):
            self._signs = []
            message = f"the folder {workspace.root} is gone"
            raise Refused("not_found", message, "run holdfast in a project's folder")
        keeper = self.open_keeper()
        overview = keeper.overview()
        if self._workflow is not None:
            state = overview.states.get(self._workflow)
            state = state or keeper.show(workflow=self._workflow).state
            overview.states, overview.unopened = {self._workflow: state}, 0
        details = keeper.watched(overview, workflow=self._workflow, limit=_MAX_EVENTS)
        self._records = [state["record"] for state in overview.states.values()]
        steps = _next_steps(keeper, overview.states)
        keeper.drain_notes()
        after = self._read_signs()
        # What was written meanwhile may not have been read: then the next look reads again.
        self._signs = after if set(before) <= set(after) else []
        return {
            **blank_view(workspace, self.name),
            "seq": overview.seq,
            "states": overview.states,
            "steps": steps,
            "unopened": overview.unopened,
            "unsettled": overview.unsettled,
            "mine": overview.mine,
            "initiative": overview.initiative,
            "damage": overview.damage,
            **details,
        }

    def is_stale(self) -> bool:
        """Return whether something was written since the last look."""
        return self._read_signs() != self._signs

    def details(self, workflow: str) -> Fields:
        """Return one workflow, which may have ended, its newest events and its missing files."""
        keeper = self.open_keeper()
        state = keeper.show(workflow=workflow).state
        events = keeper.log(workflow=workflow, limit=_MAX_EVENTS)
        missing = keeper.missing_reading(state)
        step = _next_steps(keeper, {workflow: state})[workflow]
        keeper.drain_notes()
        return {"state": state, "step": step, "events": events, "missing": missing}

    def _read_signs(self) -> list[object]:
        """Return what the file system says about the files that a change would write."""
        workspace = self.workspace
        signs: list[object] = [os.path.isdir(workspace.root)]
        try:
            names = names_in(workspace.home)
            ledger = [os.path.join(workspace.home, n) for n in names if not n.endswith(_OWN_FILES)]
        except OSError:
            ledger = []
        records = [os.path.join(workspace.root, path) for path in self._records]
        head = [] if workspace.git is None else [os.path.join(workspace.git, "HEAD")]
        for path in [*sorted(ledger), *records, *head]:
            try:
                stat = os.stat(path)
            except OSError:
                signs.append((path, None))
                continue
            signs.append((path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return signs


def blank_view(workspace: Workspace, name: str) -> Fields:
    """Return the view of a repository of which nothing is known but where it is."""
    branch = workspace.branch()
    return {
        "root": workspace.root, "name": name, "title": f"{name} on {branch}" if branch else name,
        "seq": 0, "states": {}, "steps": {}, "unopened": 0, "unsettled": [], "mine": None,
        "initiative": None, "damage": [], "layers": [], "events": [],
    }  # fmt: skip


def _next_steps(keeper: Keeper, states: dict[str, Workflow]) -> dict[str, NextStep | None]:
    """Return the next step of each workflow, as in the worktree that it belongs to."""
    steps: dict[str, NextStep | None] = {}
    tree = None
    for number, (name, state) in enumerate(states.items()):
        facts = None
        if number < _MAX_FACTS and state["worktree"] == keeper.workspace.name:
            try:
                tree = tree or keeper.session.facts.tree(state)
                facts = keeper.session.facts.of_next_step(state, tree)
            except (HoldfastError, OSError):
                facts = None  # The step is shown as it is without what git says.
        steps[name] = next_step(state, facts, is_named=len(states) > 1)
    return steps


class Pollers:
    """The pollers of all repositories that are watched, and the newest view of each."""

    def __init__(
        self, list_pollers: Callable[[], list[Poller]], clock_ms: Callable[[], int]
    ) -> None:
        self._list = list_pollers
        self._clock_ms = clock_ms
        self._listed_ms: int | None = None
        self._pollers: dict[str, Poller] = {}
        self._views: dict[str, Fields] = {}
        self._polled_ms: dict[str, int] = {}

    def first_views(self) -> list[Fields]:
        """Return the views; raise ``Refused`` or ``Fault`` if the only repository has none."""
        self._read_list()
        if len(self._pollers) == 1:
            self._poll(*self._pollers)
        return self.views()

    def views(self) -> list[Fields]:
        """Return a view of each repository, those that were written read again."""
        self._read_list()
        now_ms = self._clock_ms()
        for root, poller in self._pollers.items():
            age_ms = now_ms - self._polled_ms.get(root, now_ms)
            is_old = age_ms > _MAX_AGE_MS and bool(self._views[root]["states"])
            if root in self._views and not is_old and not poller.is_stale():
                continue
            try:
                self._poll(root)
            except (HoldfastError, OSError) as error:
                before = self._views.get(root) or blank_view(poller.workspace, poller.name)
                self._views[root] = {**before, "damage": [str(error)]}
        return [self._views[root] for root in self._pollers]

    def is_stale(self) -> bool:
        """Return whether something was written in any of the repositories."""
        self._read_list()
        return any(
            root not in self._views or poller.is_stale() for root, poller in self._pollers.items()
        )

    def poller(self, root: str) -> Poller:
        """Return the poller of a repository; raise ``Refused`` if it is not watched."""
        if root not in self._pollers:
            raise Refused("not_found", f"{root} is not watched here", "holdfast watch --all")
        return self._pollers[root]

    def root_of(self, project: str) -> str:
        """Return the root under which the repository with this main folder is watched."""
        roots = [r for r, poller in self._pollers.items() if poller.workspace.project == project]
        return next(iter(roots), project)

    def _read_list(self) -> None:
        now_ms = self._clock_ms()
        if self._listed_ms is not None and 0 <= now_ms - self._listed_ms < _LIST_AGE_MS:
            return
        self._listed_ms = now_ms
        listed = {poller.workspace.root: poller for poller in self._list()}
        self._pollers = {root: self._pollers.get(root, poller) for root, poller in listed.items()}
        for root, name in short_names(self._pollers).items():
            if self._pollers[root].name != name:
                self._pollers[root].name = name
                self._views.pop(root, None)  # The view has the name that it had alone.

    def _poll(self, root: str) -> None:
        self._polled_ms[root] = self._clock_ms()
        self._views[root] = self._pollers[root].poll()


class OpenKeepers:
    """The keepers of many repositories, of which only those that were used last stay open.

    A ledger that was written is not closed: the last writer to close one would move its journal
    while others may be writing.
    """

    def __init__(self, open_keeper: Callable[[str], Keeper], own: Keeper) -> None:
        self._open = open_keeper
        self._opened: dict[str, Keeper] = {}
        self._written: dict[str, Keeper] = {own.workspace.root: own}

    def keeper(self, root: str) -> Keeper:
        """Return the keeper of a repository; raise ``Fault`` if its folder is gone."""
        if root in self._written:
            return self._written[root]
        if not os.path.isdir(root):
            raise Fault("storage", f"the folder {root} is gone", "bring it back")
        keeper = self._opened.pop(root, None) or self._open(root)
        self._opened[root] = keeper  # The one that was used last is the last one.
        while len(self._opened) > _MAX_OPEN:
            del self._opened[next(iter(self._opened))]
        return keeper

    def to_change(self, root: str) -> Keeper:
        """Return the keeper of a repository that is about to be changed; it stays open."""
        keeper = self.keeper(root)
        self._written[root] = keeper
        return keeper

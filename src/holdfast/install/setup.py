"""``init`` and ``uninstall``: what is ours in a client's files, and those files as they were.

Everything is looked at before anything is written: what cannot be changed is refused, untouched.
The journal is written before a file is, and corrected after one was restored; so a run that dies
leaves a whole file, old or new, and the next run makes sense of both.
"""

from __future__ import annotations

import os

from holdfast.errors import Refused
from holdfast.install.advice import notes_on, notes_on_sandbox, notes_on_skills
from holdfast.install.agents import AGENTS, LOCAL, TEAM, USER, agent_named
from holdfast.install.client_files import (
    Place,
    SettingsFile,
    all_of,
    sandbox_of,
    servers_of,
    settings_of,
    skills_of,
)
from holdfast.install.diffs import unified
from holdfast.install.journal import Journal, following
from holdfast.storage.ledger import Ledger
from holdfast.storage.shared_file import clear_spares, settle
from holdfast.system.disk import Disk
from holdfast.workspace.location import Workspace, find, person_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.types import Fields
    from holdfast.install.agents import Agent
    from holdfast.install.client_files import SandboxFile


class Change:
    """What became of one file, or would become of it."""

    __slots__ = ("after", "before", "how", "place")

    def __init__(self, place: Place, before: bytes | None, after: bytes | None, how: str) -> None:
        self.place = place
        self.before = before
        self.after = after
        self.how = how

    def as_fields(self) -> Fields:
        diff = unified(self.before, self.after, self.place.shown)
        return {"path": self.place.shown, "change": self.how, "diff": diff}


class Outcome:
    """The files, each with its change, and what else there is to know."""

    __slots__ = ("changes", "notes")

    def __init__(self, changes: list[Change], notes: list[str]) -> None:
        self.changes = changes
        self.notes = notes


def init(
    path: str = ".",
    *,
    agent: str = "claude",
    scope: str = TEAM,
    enforce: bool = False,
    dry_run: bool = False,
) -> Outcome:
    """Puts hooks and skills into a client's files: the team's, the person's here, or everywhere."""
    workspace = find(path)
    client = agent_named(agent)
    settings = settings_of(client, scope, workspace, enforce=enforce)
    skills = skills_of(client, scope, workspace)
    places: list[Place] = [settings, *servers_of(client, scope, workspace), *skills]
    disk = Disk()
    notes: list[str] = []
    run = _Run(disk, workspace, scope, notes)
    changes = [run.with_ours(place) for place in places]
    sandbox = sandbox_of(client, workspace)
    own_run = _Run(disk, workspace, USER, notes)
    own_changes = [] if sandbox is None else [own_run.with_ours(sandbox)]
    if not dry_run and any(change.after != change.before for change in changes):
        changes = run.put_in(places)
    if sandbox is not None:
        if not dry_run:
            own_changes = [_allow(own_run, sandbox, disk, own_changes[0])]
            # A command in the sandbox cannot name it: git's own folder is read-only there.
            workspace.take_name(disk, Ledger(workspace.home, disk, 0.0).has_worktree)
        notes += notes_on_sandbox(sandbox, disk, own_changes[0].after or b"")
    changes += own_changes
    after = {change.place.key: change.after or b"" for change in changes}
    notes += notes_on(settings, workspace, disk, after[settings.key], enforce=enforce)
    notes += notes_on_skills(settings, [s.shown for s in skills if after[s.key] != s.text])
    return Outcome(changes, notes)


def uninstall(
    path: str = ".", *, agent: str | None = None, scope: str | None = None, dry_run: bool = False
) -> Outcome:
    """Takes all of ours out again; a file that nobody else changed is what it was, byte for byte.

    Without an agent all of them are meant; without a scope the project's files, the team's and the
    person's.
    """
    workspace = find(path)
    agents = [agent_named(agent)] if agent is not None else list(AGENTS.values())
    scopes = (TEAM, LOCAL) if scope is None else (scope,)
    disk = Disk()
    places = all_of(agents, scopes, workspace, disk)
    notes: list[str] = []
    run = _Run(disk, workspace, scopes[0], notes)
    changes = [change for place in places if (change := run.without_ours(place)) is not None]
    own_run = _Run(disk, workspace, USER, notes)
    own_places = _sandboxes(agents, scopes, workspace, disk)
    own_changes = [one for place in own_places if (one := own_run.without_ours(place)) is not None]
    if not dry_run:
        # The folder goes last: a sandbox that is told to mount it does not start without it.
        own_changes = own_run.take_out(own_places, own_changes)
        changes = run.take_out(places, changes)
        for place in own_places if own_changes else ():
            disk.remove_folder(place.folder)
    return Outcome(changes + own_changes, notes)


def _allow(run: _Run, place: SandboxFile, disk: Disk, planned: Change) -> Change:
    """Let Codex's sandbox write the ledger's folder, which has to be there before."""
    disk.make_folder(place.folder, 0o700)
    if planned.after == planned.before:
        return planned
    try:
        return run.put_in([place])[0]
    except OSError as error:
        # Some have their configuration from elsewhere, read-only; the hooks are in place.
        run.notes.append(f"{place.shown} could not be written ({error.strerror or error})")
        return Change(place, planned.before, planned.before, "unchanged")


def _sandboxes(
    agents: list[Agent], scopes: tuple[str, ...], workspace: Workspace, disk: Disk
) -> list[SandboxFile]:
    """Return the configuration that names the ledger's folder, if nothing of Codex's stays."""
    codex = AGENTS["codex"]
    found = sandbox_of(codex, workspace) if codex in agents else None
    others = [scope for scope in codex.files if scope not in scopes]
    stays = any(SettingsFile(codex, scope, workspace).has_ours(disk) for scope in others)
    return [] if found is None or stays else [found]


class _Run:
    """One change of settings files, with the journal that goes with them."""

    def __init__(self, disk: Disk, workspace: Workspace, scope: str, notes: list[str]) -> None:
        self._disk = disk
        self._workspace = workspace
        self._is_own = scope == USER
        self.notes = notes
        folder = person_folder() if self._is_own else workspace.home
        self._journal = Journal(disk, folder)

    def with_ours(self, place: Place) -> Change:
        """What there is to be done to a file so that it has what is ours."""
        before = self._disk.read(place.target())
        after = place.with_ours(before, self._journal.entries.get(place.key))
        return _put_in(place, before, after)

    def put_in(self, places: Sequence[Place]) -> list[Change]:
        done: list[Change] = []

        def write() -> None:
            done.extend([self._put_in(place) for place in places])

        self._locked(write, [os.path.dirname(place.target()) for place in places])
        return done

    def _put_in(self, place: Place) -> Change:
        seen: list[tuple[bytes | None, bytes]] = []

        def prepare(raw: bytes | None) -> bytes:
            earlier = self._journal.entries.get(place.key)
            after = place.with_ours(raw, earlier)
            seen.append((raw, after))
            if after != raw:
                original = place.without_ours(raw, earlier)
                text = None if original is None else original.decode()
                self._journal.keep(place.key, following(earlier, text, raw, after))
            return after

        target = place.target()
        self._clear(place)
        settle(self._disk, target, prepare)
        return _put_in(place, *seen[-1])

    def without_ours(self, place: Place) -> Change | None:
        """What there is to be done to a file; nothing where nothing of ours is in it."""
        if not os.path.isfile(place.path):
            return None
        if place.is_elsewhere():
            if place.key in self._journal.entries:
                place.target()  # which refuses it: what we put there is to be taken out by hand
            return None
        before = self._disk.read(place.path)
        entry = self._journal.entries.get(place.key)
        after = place.without_ours(before, entry)
        if after == before or before is None:
            return None
        place.target()
        if after is None:
            return Change(place, before, after, "removed")
        alone = entry is not None and entry.is_ours_alone(before)
        return Change(place, before, after, "restored" if alone else "changed")

    def take_out(self, places: Sequence[Place], planned: list[Change]) -> list[Change]:
        """Does it, and forgets what was noted of files that have nothing of ours any more."""
        is_known = any(place.key in self._journal.entries for place in places)
        if not planned and not is_known and not self._journal.is_at_work():
            return []
        done: list[Change] = []

        def write() -> None:
            for place in places:
                is_known = place.key in self._journal.entries
                if is_known:
                    self._clear(place)
                if (change := self.without_ours(place)) is not None:
                    self._take_out(place, change)
                    done.append(change)
                if is_known:
                    self._leave([os.path.dirname(place.path)])
                    self._journal.drop(place.key)

        folders = [os.path.dirname(place.path) for place in places]
        self._locked(write, [folder for folder in folders if os.path.isdir(folder)])
        return done

    def _take_out(self, place: Place, change: Change) -> None:
        def prepare(raw: bytes | None) -> bytes | None:
            change.before = raw
            change.after = place.without_ours(raw, self._journal.entries.get(place.key))
            return change.after

        settle(self._disk, place.target(), prepare)

    def _clear(self, place: Place) -> None:
        try:
            target = place.target()
        except Refused:
            return  # Whatever stands there now, nothing of ours can be beside it.
        entry = self._journal.entries.get(place.key)
        kept = clear_spares(
            self._disk, target, lambda found: entry is not None and entry.knows(found)
        )
        self.notes += [f"a file that somebody saved during an earlier run is {k}" for k in kept]

    def _locked(self, write: Callable[[], None], folders: list[str]) -> None:
        """Writes under the journal's lock."""
        journal = self._journal
        if not self._is_own:
            self._workspace.check_home()
        near = [journal.folder, *folders]
        made = _missing(near)
        fd = journal.lock()
        try:
            journal.load()
            journal.folders += [folder for folder in made if folder not in journal.folders]
            if not self._is_own:
                self._workspace.prepare(self._disk, self.notes.append)
            write()
        finally:
            journal.keeps_folder = self._is_mounted()
            journal.unlock(fd)
            self._leave(near)

    def _is_mounted(self) -> bool:
        """True if Codex's sandbox is told to mount the journal's folder."""
        try:
            sandbox = None if self._is_own else sandbox_of(AGENTS["codex"], self._workspace)
        except Refused:
            return False
        return sandbox is not None and sandbox.names_folder(self._disk)

    def _leave(self, near: list[str]) -> None:
        """Folders that were made, and are empty, go again."""
        journal = self._journal
        for folder in reversed(journal.folders):
            if folder == journal.folder and journal.keeps_folder:
                continue
            # The journal of a project lies in it, so it is a stranger's word too.
            if any(f"{one}{os.sep}".startswith(f"{folder}{os.sep}") for one in near):
                self._disk.remove_folder(folder)


def _put_in(place: Place, before: bytes | None, after: bytes) -> Change:
    how = "unchanged" if after == before else "created" if before is None else "changed"
    return Change(place, before, after, how)


def _missing(folders: list[str]) -> list[str]:
    """The folders that would have to be made for these, the outer ones first."""
    found = set()
    for folder in folders:
        above = folder
        while not os.path.isdir(above) and os.path.dirname(above) != above:
            found.add(above)
            above = os.path.dirname(above)
    return sorted(found, key=len)

"""Set Holdfast up in the settings of an agent's client, and take it out again.

``init`` and ``uninstall`` look at every file before they write one: if a file cannot be changed,
nothing is. ``agents`` describes the clients; ``client_files`` is each file with and without our
entries, ``sandbox`` Codex's configuration; ``changes`` writes the files so that they can be
restored; ``doctor`` checks everything that Holdfast needs.
"""

from __future__ import annotations

from holdfast.core import json_text
from holdfast.evidence.git import which
from holdfast.install.agents import (
    AGENTS,
    HOOK,
    LOCAL,
    SCOPES,
    TEAM,
    USER,
    agent_named,
)
from holdfast.install.changes import Changes, FileChange
from holdfast.install.client_files import (
    ClientFile,
    SettingsFile,
    all_files,
    old_skill_files,
    server_files,
    settings_files,
    skill_files,
)
from holdfast.install.sandbox import sandbox_file
from holdfast.install.status_line import former_of, has_own, shown_command
from holdfast.storage.ledger import Ledger
from holdfast.system.disk import Disk
from holdfast.workspace.location import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.install.client_files import OldSkillFile
    from holdfast.install.sandbox import SandboxFile
    from holdfast.workspace.location import Workspace

__all__ = ["SetupOutcome", "init", "uninstall"]


class SetupOutcome:
    """The change of each file, and notes for the user."""

    __slots__ = ("changes", "notes")

    def __init__(self, changes: list[FileChange], notes: list[str]) -> None:
        self.changes = changes
        self.notes = notes


def init(
    path: str = ".",
    *,
    agent: str = "claude",
    scope: str = TEAM,
    enforce: bool = False,
    status_line: bool = False,
    dry_run: bool = False,
) -> SetupOutcome:
    """Add hooks and skills to a client's files; raise ``Refused`` if one cannot be changed.

    ``scope`` is ``team`` (in the project), ``local`` (the user's, in the project) or ``user`` (the
    user's, for all projects). ``enforce`` adds the hooks that can hold an agent back, and
    ``status_line`` a line on the workflow, beside the one that is there.
    """
    workspace = find(path)
    client = agent_named(agent)
    settings = SettingsFile(client, scope, workspace, enforce=enforce, has_status_line=status_line)
    skills = skill_files(client, scope, workspace)
    files: list[ClientFile] = [settings, *server_files(client, scope, workspace), *skills]
    disk = Disk()
    notes: list[str] = []
    run = Changes(disk, workspace, scope, notes)
    changes = [run.plan_add(file) for file in files]
    config = sandbox_file(workspace) if client.name == "codex" else None
    user_run = Changes(disk, workspace, USER, notes)
    config_change = None if config is None else user_run.plan_add(config)
    if not dry_run and any(change.after != change.before for change in changes):
        changes = run.add(files)
    if config is not None and config_change is not None:
        if not dry_run:
            config_change = _allow_ledger(user_run, config, disk, config_change)
            # A command in the sandbox cannot name the worktree: it cannot write git's folder.
            if workspace.is_unnamed:
                workspace.take_name(disk, Ledger(workspace.home, disk, 0.0).has_worktree)
        if obstacle := config.obstacle(config.parse(config_change.after or b"")):
            notes.append(f"Codex's commands cannot write the ledger: {'; '.join(obstacle)}")
        changes.append(config_change)
    after = {change.file.key: change.after or b"" for change in changes}
    changes += _remove_old_skills(run, old_skill_files(client, scope, workspace), dry_run=dry_run)
    notes += _settings_notes(settings, workspace, after[settings.key], enforce=enforce)
    if status_line:
        notes += _status_line_notes(settings, workspace, after[settings.key])
    if client.skills_folder(scope) is None:
        notes.append(
            "no skills were added: they are for a team or for all your projects, so run holdfast "
            f"init --agent {agent}, or add --user"
        )
    for skill in skills:
        if after[skill.key] != skill.text:
            notes.append(f"{skill.name} differs from Holdfast's version, and was not changed")
    return SetupOutcome(changes, notes)


def uninstall(
    path: str = ".", *, agent: str | None = None, scope: str | None = None, dry_run: bool = False
) -> SetupOutcome:
    """Remove what ``init`` added. A file that only Holdfast changed is restored byte for byte.

    Without ``agent``, do it for all clients; without ``scope``, for all files in the project.
    """
    workspace = find(path)
    agents = [agent_named(agent)] if agent is not None else list(AGENTS.values())
    scopes = (TEAM, LOCAL) if scope is None else (scope,)
    disk = Disk()
    files = all_files(agents, scopes, workspace)
    codex = AGENTS["codex"]
    config = sandbox_file(workspace) if codex in agents else None
    others = settings_files(codex, [other for other in SCOPES if other not in scopes], workspace)
    is_used = any(file.has_ours() for file in others)
    configs = [] if config is None or is_used else [config]
    notes: list[str] = []
    run = Changes(disk, workspace, scopes[0], notes)
    user_run = Changes(disk, workspace, USER, notes)
    changes = [change for file in files if (change := run.plan_remove(file))]
    config_changes = [change for file in configs if (change := user_run.plan_remove(file))]
    if not dry_run:
        # The folder goes last: a sandbox that should mount it does not start without it.
        config_changes = user_run.remove(configs, config_changes)
        changes = run.remove(files, changes)
        if config is not None and config_changes:
            disk.remove_folder(config.folder)
    return SetupOutcome(changes + config_changes, notes)


def _remove_old_skills(
    run: Changes, files: list[OldSkillFile], *, dry_run: bool
) -> list[FileChange]:
    """Remove skills that an earlier version named without prefix, unless somebody edited them."""
    planned = [change for file in files if (change := run.plan_remove(file))]
    run.notes += [
        f"{file.name} is from an earlier version of Holdfast and was edited, so it was not "
        f"removed; remove it if it hides a command of {file.agent.title}"
        for file in files
        if run.is_edited(file)
    ]
    return planned if dry_run else run.remove([change.file for change in planned], planned)


def _allow_ledger(run: Changes, config: SandboxFile, disk: Disk, planned: FileChange) -> FileChange:
    """Let Codex's sandbox write the ledger's folder, after making it."""
    disk.make_folder(config.folder, 0o700)
    if planned.after == planned.before:
        return planned
    try:
        return run.add([config])[0]
    except OSError as error:
        # Some users have a read-only configuration from elsewhere; the hooks work without it.
        run.notes.append(f"{config.name} could not be written ({error.strerror or error})")
        return FileChange(config, planned.before, planned.before)


def _status_line_notes(settings: SettingsFile, workspace: Workspace, raw: bytes) -> Iterator[str]:
    """Yield what the user should know about the status line in settings with this content."""
    agent = settings.agent
    if agent.without_status_line:
        yield (
            f"{agent.without_status_line}. holdfast watch in a second terminal shows more, and "
            "holdfast statusline prints the line, for example for tmux"
        )
        return
    if not has_own(json_text.loads(raw)):
        yield f"the status line in {settings.name} runs holdfast statusline already"
    # The client shows the status line of the first of these that has one.
    order = (LOCAL, TEAM, USER)
    rank = order.index(settings.scope)
    for other in settings_files(agent, order, workspace):
        command, place = other.shown_status_line(), order.index(other.scope)
        if not command or other.path == settings.path:
            continue
        if place < rank:
            yield f"{other.name} has a status line, too, which is shown here in place of this one"
        elif former_of(command) is None and command not in (
            former_of(shown_command(json_text.loads(raw))),
            "",
        ):
            yield (
                f"{other.name} has a status line that this one hides here; to have both: "
                f"holdfast init --statusline{'' if other.scope == TEAM else ' --user'}"
            )


def _settings_notes(
    settings: SettingsFile, workspace: Workspace, raw: bytes, *, enforce: bool
) -> Iterator[str]:
    """Yield what the user should know about a settings file with this content."""
    agent = settings.agent
    if settings.scope == TEAM and not which(HOOK[0]):
        yield "holdfast is not on the PATH, so these settings do nothing here yet"
    if enforce:
        kinds = ", ".join([f'"{kind}"' for kind in agent.enforceable()])
        yield f"choose what to enforce in .claude/holdfast.toml: enforce = [{kinds}]"
    if json_text.loads(raw).get("disableAllHooks") is True:
        yield f"{settings.name} disables all hooks (disableAllHooks)"
    for other in settings_files(agent, SCOPES, workspace):
        if other.path != settings.path and other.has_ours():
            surplus = settings if other.scope == TEAM else other
            yield (
                f"{other.name} has the hook too, so it runs twice at each event; remove one: "
                f"holdfast uninstall --agent {agent.name} --{surplus.scope}"
            )
    if agent.note:
        yield agent.note

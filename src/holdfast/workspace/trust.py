"""Check that a person approved a command of the repository before it runs.

Approvals are stored in the person's own folder, by workspace and by the command's full text. A
command that a person or an agent typed needs no approval.
"""

from __future__ import annotations

import os

from holdfast.core import json_text
from holdfast.errors import Refused, newer_file
from holdfast.system.disk import Disk
from holdfast.workspace import mcp_servers, recipes
from holdfast.workspace.location import person_folder
from holdfast.workspace.settings import TEAM, bad_command, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.types import Fields, Workflow
    from holdfast.workspace.location import Workspace

FILE = "trusted.json"
VERSION = 1
SERVER = "mcp:"
"""The prefix of a server's name where another command has the name of its gate."""
NOT_COVERED = (
    "what an approved command runs in its turn (a Makefile's targets, a script's lines, the tests "
    "themselves) is not covered: whoever can change those files can change what runs"
)
_WAIT_S = 10.0


class Wish:
    """A command that the repository asks Holdfast to run."""

    __slots__ = ("approved", "command", "gate", "source")

    def __init__(self, gate: str, command: str, source: str, *, approved: bool) -> None:
        self.gate = gate
        self.command = command
        self.source = source
        self.approved = approved

    def as_fields(self) -> Fields:
        return {name: getattr(self, name) for name in ("gate", "command", "source", "approved")}


def wishes(workspace: Workspace, states: list[Workflow]) -> tuple[list[Wish], list[str]]:
    """Return the commands in recipes, settings and workflows, and notes on unusable ones."""
    settings = load(workspace.root)
    sources: dict[tuple[str, str], str] = {}
    notes = []
    for name in recipes.names(workspace.root):
        try:
            recipe = recipes.load(name, workspace.root)
        except recipes.BadRecipe as bad:
            notes.append(bad.message)
            continue
        for gate, fields in recipe.get("gates", {}).items():
            if "command" in fields:
                sources.setdefault((gate, fields["command"]), f"recipe {name}")
    for gate, fields in settings.gates_of_team().items():
        if "command" in fields:
            sources.setdefault((gate, fields["command"]), TEAM)
    for state in states:
        for gate, fields in state["recipe"].get("gates", {}).items():
            if isinstance(fields.get("command"), str):
                sources.setdefault((gate, fields["command"]), f"workflow {state['id']}")
        for task in state["tasks"]:
            if isinstance(task.get("verify"), str):
                sources.setdefault((f"unit {task['id']}", task["verify"]), f"loop {state['id']}")
    _add_server(workspace, settings.graph(), sources, notes)
    listed = []
    for (gate, command), source in sources.items():
        why = bad_command(command)
        if why is None:
            approved = is_approved(workspace, command)
            listed.append(Wish(gate, command, source, approved=approved))
        else:
            notes.append(f"{source}: the command of {named(gate)} {why}, so it cannot be approved")
    return listed, notes


def _add_server(
    workspace: Workspace, kept_by: str, sources: dict[tuple[str, str], str], notes: list[str]
) -> None:
    """Add the command that starts the server of the graph, which the repository defines."""
    if not kept_by.startswith(SERVER):
        return
    try:
        server = mcp_servers.find(workspace, kept_by.removeprefix(SERVER))
    except Refused as refused:
        notes.append(refused.message)
    else:
        sources.setdefault((kept_by, server.text), mcp_servers.FILE)


def named(gate: str) -> str:
    """Return the purpose of a command in words, such as ``gate tests``."""
    if gate.startswith(SERVER):
        return f"the server {gate.removeprefix(SERVER)}"
    return gate if gate.startswith("unit ") else f"gate {gate}"


def is_approved(workspace: Workspace, command: str) -> bool:
    approved = _approvals().get(_key(workspace), {})
    return command in approved or _is_in_trusted_folder(workspace)


def check(workspace: Workspace, gate: str, command: str, source: str) -> None:
    """Raise ``Refused`` if the person has not approved this command."""
    why = bad_command(command)
    if why is None and is_approved(workspace, command):
        return
    shown = command if why is None else repr(command)[:200]
    raise Refused(
        "untrusted",
        f"{named(gate)}: {source} wants to run {shown!r}, which nobody approved here"
        + (f" (it {why})" if why else ""),
        "let a person read it and approve it: holdfast trust",
        command=command[:1_000],
        source=source,
    )


def approve(workspace: Workspace, commands: list[str], at: str) -> None:
    """Store that the person approved these commands."""
    key = _key(workspace)
    _change(lambda known: {**known, key: {**known.get(key, {}), **dict.fromkeys(commands, at)}})


def revoke(workspace: Workspace) -> int:
    """Remove every approval for this workspace; return how many there were."""
    key = _key(workspace)
    count = len(_approvals().get(key, {}))
    _change(lambda known: {other: held for other, held in known.items() if other != key})
    return count


def _key(workspace: Workspace) -> str:
    """Return the key of a workspace's approvals, which all worktrees of a repository share."""
    return os.path.realpath(workspace.home)


def _is_in_trusted_folder(workspace: Workspace) -> bool:
    here = os.path.join(os.path.realpath(workspace.root), "")
    folders = load(workspace.root).trusted_folders
    return any(
        here.startswith(os.path.join(os.path.realpath(os.path.expanduser(folder)), ""))
        for folder in folders
    )


def _path() -> str:
    return os.path.join(person_folder(), FILE)


def _approvals() -> dict[str, Fields]:
    """Return the approved commands by workspace. A damaged file approves nothing.

    Raise ``Fault`` if a newer Holdfast wrote the file.
    """
    try:
        held = json_text.loads(Disk().read(_path()) or b"{}", strict=True)
    except json_text.BadJson:
        return {}
    version = held.get("version") if isinstance(held, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise newer_file(_path(), version)
    workspaces = held.get("workspaces") if isinstance(held, dict) else None
    if not isinstance(workspaces, dict):
        return {}
    return {key: value for key, value in workspaces.items() if isinstance(value, dict)}


def _change(change: Callable[[dict[str, Fields]], dict[str, Fields]]) -> None:
    """Replace the approvals by what ``change`` returns, under a lock of their own."""
    disk = Disk()
    disk.make_folder(person_folder(), 0o700)
    fd = disk.lock(f"{_path()}.lock", _WAIT_S)
    try:
        changed = change(_approvals())
        text = json_text.pretty({"version": VERSION, "workspaces": changed}) + "\n"
        disk.replace_view(_path(), text.encode(), durable=True)
    finally:
        disk.close(fd)

"""Check that a person approved a command or a server of the repository before it is used.

Approvals are stored in the person's own folder, by workspace and by the command's full text. A
command that a person or an agent typed needs no approval. The servers in ``.mcp.json`` come with
the repository, too: what is approved is the command with its arguments and variables, or the
address with its headers, exactly as the file has them. ``${NAME}`` and ``${NAME:-default}`` are
expanded at use.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from holdfast.core import json_text
from holdfast.core.refusal import shell_word
from holdfast.errors import Refused, refuse_newer
from holdfast.system.disk import Disk
from holdfast.workspace import recipes
from holdfast.workspace.location import is_inside, person_folder, person_path
from holdfast.workspace.settings import TEAM, bad_command, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.core.types import Fields, Json, Workflow
    from holdfast.workspace.location import Workspace

FILE = "trusted.json"
VERSION = 1
SERVER = "mcp:"
"""The prefix of a server's name where another command has the name of its gate."""
NOT_COVERED = (
    "what an approved command runs in its turn (a Makefile's targets, a script's lines, the tests "
    "themselves) is not covered: whoever can change those files can change what runs"
)
SERVERS_FILE = ".mcp.json"
_MAX_SERVERS_BYTES = 1 << 20
_MAX_LISTED = 10
_HTTP_TYPES = ("http", "streamable-http", "streamableHttp")
_WAIT_S = 10.0


class CommandRequest:
    """A command that the repository asks Holdfast to run."""

    __slots__ = ("approved", "command", "gate", "source")

    def __init__(self, gate: str, command: str, source: str, *, approved: bool) -> None:
        self.gate = gate
        self.command = command
        self.source = source
        self.approved = approved

    def as_fields(self) -> Fields:
        return {name: getattr(self, name) for name in ("gate", "command", "source", "approved")}


def list_requests(
    workspace: Workspace, states: list[Workflow]
) -> tuple[list[CommandRequest], list[str]]:
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
    for gate, fields in settings.gates_of_team.items():
        if "command" in fields:
            sources.setdefault((gate, fields["command"]), TEAM)
    for state in states:
        for gate, fields in state["recipe"].get("gates", {}).items():
            if isinstance(fields.get("command"), str):
                sources.setdefault((gate, fields["command"]), f"workflow {state['id']}")
        for gate, command, machine in _ran_elsewhere(state):
            sources.setdefault((gate, command), f"the machine {machine}")
        for task in state["tasks"]:
            if isinstance(task.get("verify"), str):
                sources.setdefault((f"unit {task['id']}", task["verify"]), f"loop {state['id']}")
    graph = settings.graph()
    if graph.startswith(SERVER):
        try:
            server = find_server(workspace, graph.removeprefix(SERVER))
        except Refused as refused:
            notes.append(refused.message)
        else:
            sources.setdefault((graph, server.text), SERVERS_FILE)
    requests = []
    for (gate, command), source in sources.items():
        why = bad_command(command)
        if why is None:
            approved = is_approved(workspace, command)
            requests.append(CommandRequest(gate, command, source, approved=approved))
        else:
            notes.append(
                f"{source}: the command of {describe_gate(gate)} {why}, so it cannot be approved"
            )
    return requests, notes


def _ran_elsewhere(state: Workflow) -> Iterator[tuple[str, str, str]]:
    """Yield gate, command and machine of what other machines have run in a shared workflow."""
    tests = state["tests"]
    results: dict[str, Fields] = {"test": {**tests, "command": tests.get("test_command")}}
    for gate, result in [*results.items(), *state["gates"].items()]:
        if result.get("machine") and isinstance(result.get("command"), str):
            yield gate, result["command"], result["machine"]


def describe_gate(gate: str) -> str:
    """Return the purpose of a command in words, such as ``gate tests``."""
    if gate.startswith(SERVER):
        return f"the server {gate.removeprefix(SERVER)}"
    return gate if gate.startswith("unit ") else f"gate {gate}"


def is_approved(workspace: Workspace, command: str) -> bool:
    """Return True if the person approved the command here, or trusts the folder as a whole."""
    path = _path(workspace)
    if path is None:
        return False
    if command in _approvals(path).get(_key(workspace), {}):
        return True
    return is_trusted_folder(workspace)


def is_trusted_folder(workspace: Workspace) -> bool:
    """Return True if the person's own settings trust the workspace's folder as a whole."""
    here = os.path.join(os.path.realpath(workspace.root), "")
    folders = map(os.path.expanduser, load(workspace.root).trusted_folders)
    return any(here.startswith(os.path.join(os.path.realpath(folder), "")) for folder in folders)


def check(workspace: Workspace, gate: str, command: str, source: str) -> None:
    """Raise ``Refused`` if the person has not approved this command."""
    why = bad_command(command)
    if why is None and is_approved(workspace, command):
        return
    text = command if why is None else repr(command)[:200]
    if why is None and _path(workspace) is None:
        why = f"cannot be approved: {person_path()} is inside this repository"
    raise Refused(
        "untrusted",
        f"{describe_gate(gate)}: {source} wants to run {text!r}, which nobody approved here"
        + (f" (it {why})" if why else ""),
        "let a person read it and approve it: holdfast trust",
        command=command[:1_000],
        source=source,
    )


def approve(workspace: Workspace, commands: list[str], at: str) -> None:
    """Store that the person approved these commands; raise ``Refused`` if that is not possible."""
    with _changing_approvals(workspace) as approvals:
        approvals.setdefault(_key(workspace), {}).update(dict.fromkeys(commands, at))


def revoke(workspace: Workspace) -> int:
    """Remove every approval for this workspace; return how many there were."""
    with _changing_approvals(workspace) as approvals:
        return len(approvals.pop(_key(workspace), {}))


def _key(workspace: Workspace) -> str:
    """Return the key of a workspace's approvals, which all worktrees of a repository share."""
    return os.path.realpath(workspace.home)


def _path(workspace: Workspace) -> str | None:
    """Return the path of the approvals; ``None`` if it is inside the workspace itself."""
    folder = person_folder(workspace.root)
    return None if folder is None else os.path.join(folder, FILE)


def own_folders_inside(workspace: Workspace) -> list[str]:
    """Return the person's own folders that are inside the workspace, where nothing is trusted."""
    state = os.path.join(".local", "state")
    places = (("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", state))
    return [
        person_path(*place) for place in places if person_folder(workspace.root, *place) is None
    ]


def _approvals(path: str) -> dict[str, Fields]:
    """Return the approved commands by workspace. A damaged file approves nothing.

    Raise ``Fault`` if a newer Holdfast wrote the file.
    """
    try:
        document = json_text.loads(Disk().read(path) or b"{}", strict=True)
    except json_text.BadJson:
        return {}
    version = document.get("version") if isinstance(document, dict) else None
    refuse_newer(path, version, VERSION)
    workspaces = document.get("workspaces") if isinstance(document, dict) else None
    if not isinstance(workspaces, dict):
        return {}
    return {key: value for key, value in workspaces.items() if isinstance(value, dict)}


@contextmanager
def _changing_approvals(workspace: Workspace) -> Iterator[dict[str, Fields]]:
    """Yield the approvals under a lock of their own, and store them as they are afterwards.

    Raise ``Refused`` if the person's folder is inside the workspace.
    """
    disk = Disk()
    path = _path(workspace)
    if path is None:
        raise Refused(
            "untrusted",
            f"trust: {person_path()} is inside this repository, so nothing there is trusted",
            "set HOME and XDG_CONFIG_HOME to folders outside of it",
        )
    disk.make_folder(os.path.dirname(path))
    fd = disk.lock(f"{path}.lock", _WAIT_S)
    try:
        approvals = _approvals(path)
        yield approvals
        text = json_text.pretty({"version": VERSION, "workspaces": approvals}) + "\n"
        disk.replace_view(path, text.encode(), durable=True)
    finally:
        disk.close(fd)


# The servers in .mcp.json


class ConfiguredServer:
    """One server of ``.mcp.json``. ``text`` is what a person reads and approves."""

    __slots__ = ("args", "command", "environment", "headers", "name", "text", "url")

    def __init__(self, name: str, config: Fields) -> None:
        for key in ("url", "command", "type"):
            if not isinstance(config.get(key, ""), str):
                raise _unusable(f"must have text as its {key}", name)
        args = config.get("args", [])
        if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
            raise _unusable("must have a list of texts as its args", name)
        for key in ("headers", "env"):
            table = config.get(key, {})
            if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
                raise _unusable(f"must have texts by name as its {key}", name)
        self.name = name
        self.url: str = config.get("url", "")
        self.headers: dict[str, str] = config.get("headers", {})
        self.command: str = config.get("command", "")
        self.args: list[str] = args
        self.environment: dict[str, str] = config.get("env", {})
        kind: str = config.get("type", "http" if self.url else "stdio")
        if kind in _HTTP_TYPES and self.url:
            self.command = ""
            # No command reads like this: its words would be quoted.
            self.text = f"connect to <{self.url}> {_quoted(self.headers)}".rstrip()
        elif kind == "stdio" and self.command:
            self.url = ""
            env = f"env {_quoted(self.environment)} " if self.environment else ""
            self.text = env + " ".join([shell_word(part) for part in (self.command, *self.args)])
        else:
            raise _unusable(f"is of the type {kind[:40]!r}: stdio or http is needed", name)

    def expand(self, variables: Mapping[str, str]) -> ConfiguredServer:
        """Return the server with variables filled in; raise ``Refused`` if one is not set."""

        def fill(text: str) -> str:
            return _expand(self.name, text, variables)

        config: Fields = {"headers": {key: fill(value) for key, value in self.headers.items()}}
        if self.url:
            config["url"] = fill(self.url)
        else:
            config |= {"command": fill(self.command), "args": [fill(arg) for arg in self.args]}
            config["env"] = {key: fill(value) for key, value in self.environment.items()}
        return ConfiguredServer(self.name, config)


def find_server(workspace: Workspace, name: str) -> ConfiguredServer:
    """Return the server of this name; raise ``Refused`` if it is missing or unusable."""
    path = os.path.join(workspace.root, SERVERS_FILE)
    if not is_inside(path, workspace.root):
        raise Refused(
            "outside",
            f"{SERVERS_FILE} is a link that leads out of the workspace",
            "replace it by the file",
        )
    raw = Disk().read(path, _MAX_SERVERS_BYTES + 1)
    if raw is not None and len(raw) > _MAX_SERVERS_BYTES:
        raise _unusable(f"is larger than {_MAX_SERVERS_BYTES:,} bytes")
    try:
        document: Json = json_text.loads(raw or b"{}", strict=True)
    except json_text.BadJson as bad:
        raise _unusable(f"is not JSON (line {bad.line}: {bad.why})") from None
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    servers = servers if isinstance(servers, dict) else {}
    if name not in servers:
        names = ", ".join(sorted(servers)[:_MAX_LISTED])
        suffix = f"; it names {names}" if names else ""
        raise Refused(
            "no_server",
            f"the graph is to be kept by the server {name!r}, which {SERVERS_FILE} does not name"
            f"{suffix}",
            f"name it in {SERVERS_FILE}, or set HOLDFAST_GRAPH=embedded",
        )
    if not isinstance(servers[name], dict):
        raise _unusable("must be an object", name)
    return ConfiguredServer(name, servers[name])


def _unusable(why: str, name: str | None = None) -> Refused:
    key = "file" if name is None else f"mcpServers.{name[:60]}"
    hint = f"edit {SERVERS_FILE}, then run the command again"
    return Refused("bad_settings", f"{SERVERS_FILE}: {key} {why}", hint, key=key, why=why)


def _quoted(table: dict[str, str]) -> str:
    return " ".join([shell_word(f"{key}={value}") for key, value in table.items()])


def _expand(name: str, text: str, variables: Mapping[str, str]) -> str:
    start = text.find("${")
    end = text.find("}", start)
    if start < 0 or end < 0:
        return text
    key, has_default, default = text[start + 2 : end].partition(":-")
    if key not in variables and not has_default:
        raise _unusable(f"needs the variable {key[:60]}, which is not set", name)
    value = variables.get(key) or default
    return text[:start] + value + _expand(name, text[end + 1 :], variables)

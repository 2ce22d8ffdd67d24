"""``holdfast doctor``: check that everything Holdfast needs works, with a hint where it does not.

Checks try things out: they run the hooks, take a lock from two processes, write a file. A project's
settings may come from a stranger: of the commands in them, only this installation of Holdfast and
the one on the PATH are run. A user's own settings are trusted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from errno import EDQUOT, EINVAL, ENOSPC

from holdfast.adopt import unknown_workflows
from holdfast.core import json_text
from holdfast.core.refusal import Refusal
from holdfast.errors import Fault, HoldfastError, ways_to_write
from holdfast.install.agents import AGENTS, COMMAND, USER, fastest_command, which
from holdfast.install.entries import (
    OUR_SERVER,
    SERVER,
    SERVERS_FILE,
    has_server,
    own_handlers,
    words_of,
)
from holdfast.install.sandbox import ROOTS, config_path, is_among, roots_in, sandbox_file
from holdfast.storage.database import file_system, refuse_network
from holdfast.system.disk import Disk
from holdfast.workspace import settings
from holdfast.workspace.location import NOTES, is_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Event, Fields
    from holdfast.keeper import Keeper

RECORD_FOLDERS = (".claude", os.path.join("untracked", "workflow-state"))
ENFORCING_EVENTS = {"reading": ("PreToolUse", "BeforeTool"), "stop": ("Stop", "AfterAgent")}
"""The events at which each kind of rule can be enforced."""
MAX_EVENTS = 5_000
"""The number of events that are searched for the last compaction and briefing."""
_WAL = "wal"
_HOOK_PING = b'{"hook_event_name":"HoldfastPing"}'
"""An event that only Holdfast sends; a hook answers it with its version."""
_SERVER_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
_INSTALL_HINT = (
    "install it, in Holdfast's checkout: pipx install . (or: pip install .), or add it to the "
    "PATH; holdfast init --local needs neither"
)
_MAX_SETTINGS_BYTES = 1024 * 1024
_TIMEOUT_S = 20
_PLUGIN = "holdfast"
_HOOK_LOG = "hook.log"
_MAX_LOG_BYTES = 1024 * 1024
_LOG_TAIL_BYTES = 4 * 1024


def examine(keeper: Keeper) -> list[Fields]:
    """Run every check; return ``what``, ``status``, ``found`` and ``hint`` of each.

    ``status`` is ``good``, ``bad`` or ``unknown``; a bad one has a hint.
    """
    root = keeper.workspace.root
    installed = find_hooks(root)
    return [
        *_hooks(installed, root),
        *_server(root),
        _clients(),
        _settings(root, installed),
        *_folders(keeper),
        *_sandbox(keeper, installed),
        _lock(keeper),
        *_ledger(keeper),
        *_notes(root),
        *_reading(keeper),
        *_last_events(keeper),
        *_last_fault(keeper),
    ]


def _check(what: str, status: str, message: str, hint: str = "") -> Fields:
    return {"what": what, "status": status, "found": message, "hint": hint}


# Hooks, servers and clients


class InstalledHook:
    """A command in a client's settings that starts Holdfast."""

    def __init__(self, client: str, file: str, words: list[str], *, is_trusted: bool) -> None:
        self.client = client
        self.file = file
        """The settings file, as messages show it."""
        self.words = words
        self.is_trusted = is_trusted

    def program(self) -> list[str] | None:
        """Return the command to run; empty if it is not on the PATH, ``None`` if not trusted."""
        if self.words == COMMAND.split():
            program = which(self.words[0])
            return [program, *self.words[1:]] if program else []
        return self.words if self.is_trusted or self.words == fastest_command() else None


class InstalledHooks:
    """The hooks in the settings of all clients."""

    def __init__(self) -> None:
        self.hooks: list[InstalledHook] = []
        self.events: set[str] = set()
        """The events at which Holdfast is called."""
        self.troubles: list[tuple[str, str]] = []
        """Why hooks do not run: a message, and the file to edit."""


def find_hooks(root: str) -> InstalledHooks:
    """Return the hooks in every settings file of every client, the project's and the user's."""
    installed = InstalledHooks()
    for agent in AGENTS.values():
        for scope, name in agent.files.items():
            is_user = scope == USER
            path = os.path.join(agent.own_folder() if is_user else root, name)
            label = path if is_user else name
            try:
                settings = read_settings(path, None if is_user else root)
            except (json_text.BadJson, OSError) as error:
                installed.troubles.append((f"{label} cannot be read: {error}", label))
                continue
            if settings.get("disableAllHooks") is True:
                installed.troubles.append((f"{label} disables all hooks (disableAllHooks)", label))
            plugins = settings.get("enabledPlugins")
            commands = []
            if agent.name == "claude" and isinstance(plugins, dict):
                names = [name.partition("@")[0] for name, is_on in plugins.items() if is_on is True]
                commands += [COMMAND.split()] if _PLUGIN in names else []
            for event, _, handler in own_handlers(settings):
                installed.events.add(event)
                if words_of(handler) not in commands:
                    commands.append(words_of(handler))
            for words in commands:
                installed.hooks.append(InstalledHook(agent.name, label, words, is_trusted=is_user))
    return installed


def read_settings(path: str, root: str | None = None) -> Fields:
    """Return the settings in a file; an empty object if there is no file.

    Raise ``OSError`` if it leads out of ``root``, or ``BadJson``.
    """
    if not os.path.isfile(path):
        return {}
    if root is not None and not is_inside(path, root):
        raise OSError(EINVAL, "it leads out of the project")
    raw = Disk().read(path, _MAX_SETTINGS_BYTES) or b""
    settings = json_text.loads(raw if raw.strip(b"\xef\xbb\xbf \t\r\n") else b"{}")
    return settings if isinstance(settings, dict) else {}


def run(command: list[str], folder: str, stdin: bytes = b"") -> str | None:
    """Return what a program prints; ``None`` if it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - a program that the person has, or has named
            command, cwd=folder, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _hooks(installed: InstalledHooks, root: str) -> Iterator[Fields]:
    """Check that some client calls Holdfast, and that each hook answers."""
    for message, file in installed.troubles:
        yield _check("hooks", "bad", message, f"edit {file}")
    if not installed.hooks:
        yield _check("hooks", "bad", "no client is set up to run Holdfast", "holdfast init")
    for hook in installed.hooks:
        yield _answering(hook, root)
    clients = [hook.client for hook in installed.hooks]
    for client in sorted({name for name in clients if clients.count(name) > 1}):
        message = f"{client} runs Holdfast more than once at each event; remove one of the hooks"
        yield _check("hooks", "unknown", message, f"holdfast uninstall --agent {client}")


def _answering(hook: InstalledHook, root: str) -> Fields:
    """Run a hook, unless it came with the project, and check that it answers."""
    program = hook.program()
    if program is None:
        message = (
            f"{hook.file} runs another Holdfast, which is part of the project; it was not tried"
        )
        return _check("hooks", "unknown", message, "holdfast init --local, to run this one")
    if not program:
        return _check("hooks", "bad", f"{hook.file}: holdfast is not on the PATH", _INSTALL_HINT)
    try:
        answer = json_text.loads((run(program, root, _HOOK_PING) or "").encode())
    except json_text.BadJson:
        answer = None
    version = answer.get("holdfast") if isinstance(answer, dict) else None
    if not isinstance(version, str):
        message = f"{hook.file}: {' '.join(hook.words)[:200]} does not answer"
        return _check("hooks", "bad", message, "holdfast init, with the same options as before")
    return _check("hooks", "good", f"{hook.file}: answers, version {version}")


def _server(root: str) -> Iterator[Fields]:
    """Check that the server in the project's ``.mcp.json`` answers, if it is there."""
    try:
        project_servers = read_settings(os.path.join(root, SERVERS_FILE), root)
    except (json_text.BadJson, OSError) as error:
        message = f"{SERVERS_FILE} cannot be read: {error}"
        yield _check("server", "bad", message, f"edit {SERVERS_FILE}")
        return
    if not has_server(project_servers):
        return
    program = which(SERVER)
    command = [] if program is None else [program, *OUR_SERVER["args"]]
    if command and '"result"' in (run(command, root, _SERVER_PING) or ""):
        yield _check("server", "good", f"{SERVERS_FILE}: holdfast mcp answers")
    else:
        message = f"{SERVERS_FILE}: holdfast mcp does not answer"
        yield _check("server", "bad", message, _INSTALL_HINT)


def _clients() -> Fields:
    """List the clients on the PATH, with their versions."""
    versions = []
    for name in AGENTS:
        # Run in the root folder, so that a project has no influence on the client.
        output = run([path, "--version"], os.sep) if (path := which(name)) else None
        if output and output.split():
            versions.append(f"{name} {output.split()[0]}")
    if versions:
        return _check("clients", "good", ", ".join(versions))
    return _check("clients", "unknown", "none of claude, codex and gemini is on the PATH")


# Settings, folders and the sandbox


def _settings(root: str, installed: InstalledHooks) -> Fields:
    """Check that Holdfast's settings are valid, and that a client asks before what is enforced."""
    try:
        enforced = settings.load(root).enforced
    except HoldfastError as error:
        return _check("settings", "bad", error.message, error.hint)
    idle = [name for name in enforced if not installed.events.intersection(ENFORCING_EVENTS[name])]
    if idle:
        message = f"{', '.join(idle)} should be enforced, but no client runs Holdfast at that point"
        return _check("settings", "bad", message, "holdfast init --enforce")
    return _check("settings", "good", f"enforced: {', '.join(enforced) or 'nothing'}")


def _folders(keeper: Keeper) -> list[Fields]:
    """Check that the folders of the ledger and of the records can be written."""
    root, home = keeper.workspace.root, keeper.workspace.home
    folders = [home, *(os.path.join(root, name) for name in RECORD_FOLDERS)]
    tops = [os.path.realpath(top) for top in (root, keeper.workspace.common or root)]
    ledger = _existing_part(home)
    checks = [
        _try_to_write(folder, tops, ways_to_write(home) if folder == ledger else "")
        for folder in dict.fromkeys(map(_existing_part, folders))
    ]
    # If all are good, the ledger's is enough.
    return [check for check in checks if check["status"] == "bad"] or checks[:1]


def _existing_part(folder: str) -> str:
    """Return the folder, or the first one above it that exists."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def _try_to_write(folder: str, tops: list[str], hint: str) -> Fields:
    if not any(f"{os.path.realpath(folder)}/".startswith(f"{top}/") for top in tops):
        message = f"{folder} leads out of the workspace"
        return _check("folders", "bad", message, "remove the symbolic link")
    if not os.path.isdir(folder):
        message = f"{folder} is not a folder, but has to be one"
        return _check("folders", "bad", message, f"move {folder} away")
    probe = os.path.join(folder, f".holdfast-{os.getpid()}")
    disk = Disk()
    try:
        disk.create(probe, b"x", 0o600, durable=True)
        disk.remove(probe)
    except OSError as error:
        is_full = error.errno in (ENOSPC, EDQUOT)
        hint = "make room" if is_full else hint or f"make {folder} writable"
        return _check("folders", "bad", f"{folder} cannot be written ({error.strerror})", hint)
    return _check("folders", "good", f"{folder} can be written and synced")


def _sandbox(keeper: Keeper, installed: InstalledHooks) -> Iterator[Fields]:
    """Check that Codex's commands can write the ledger, if Codex is used or installed."""
    codex = AGENTS["codex"]
    is_used = codex.name in [hook.client for hook in installed.hooks]
    if not (is_used or which(codex.name) or os.path.isdir(codex.own_folder())):
        return
    status = "bad" if is_used else "unknown"
    try:
        file = sandbox_file(keeper.workspace)
        if file is None:
            return
        config = file.config(Disk())
    except (HoldfastError, OSError) as error:
        hint = getattr(error, "hint", "") or f"make {config_path()} readable"
        yield _check("sandbox", status, str(error), hint)
        return
    obstacle = file.obstacle(config, Disk())
    if obstacle is None:
        yield _check("sandbox", "good", "commands in Codex's sandbox can write the ledger")
    else:
        message = f"commands in Codex's sandbox cannot write the ledger: {obstacle[0]}"
        hint = f"{obstacle[1]}; or work outside it: the tools of holdfast mcp, or a terminal"
        yield _check("sandbox", status, message, hint)
    for root in roots_in(config):
        if os.path.isabs(root) and not os.path.exists(root):
            is_ours = is_among(file.folder, [root])
            message = (
                f"{root} is one of Codex's {ROOTS} and does not exist; Codex may refuse to "
                "run commands"
            )
            hint = "holdfast init --agent codex" if is_ours else f"remove it from {file.name}"
            yield _check("sandbox", "bad" if is_ours else "unknown", message, hint)


# The ledger and what is recorded in it


def _lock(keeper: Keeper) -> Fields:
    """Check that a lock which this process holds is refused to another process."""
    home = keeper.workspace.home
    if not os.path.isdir(home):
        return _check("locks", "unknown", "there is no ledger here yet", "")
    path = os.path.join(home, "doctor.lock")
    disk = Disk()
    try:
        fd = disk.lock(path, 1.0)
    except (OSError, HoldfastError) as error:
        return _check("locks", "bad", f"cannot take a lock: {error}", ways_to_write(home))
    try:
        second = run([sys.executable, "-I", "-c", _SECOND, path], home)
    finally:
        disk.close(fd)
        disk.remove(path)
    if second is not None and second.strip() == "refused":
        return _check("locks", "good", "a lock that is held is refused to a second process")
    hint = "put the workspace on a local file system"
    return _check("locks", "bad", "two processes can hold the same lock", hint)


_SECOND = """\
import fcntl, sys
file = open(sys.argv[1])
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("refused")
"""


def _ledger(keeper: Keeper) -> Iterator[Fields]:
    """Check the file system, the events and the journal mode of the ledger."""
    folder = keeper.workspace.home
    try:
        refuse_network(folder)
    except Fault as fault:
        yield _check("ledger", "bad", fault.message, fault.hint)
    try:
        report = keeper.verify()
        journal = keeper.store.ledger.database.journal_mode()
    except (HoldfastError, OSError) as error:
        yield _check("ledger", "bad", str(error), "holdfast verify")
        return
    if report.ok:
        message = f"{_count(report.counts['events'], 'event')}, all sound"
        yield _check("ledger", "good", message)
    else:
        yield _check("ledger", "bad", _count(report.counts["errors"], "error"), "holdfast verify")
    if journal not in ("", _WAL):
        message = (
            f"SQLite uses a rollback journal ({journal}) instead of WAL, as on file systems "
            f"without shared memory ({file_system(folder) or 'unknown here'}): safe, but slower, "
            "and readers wait for writers"
        )
        yield _check("journal", "unknown", message, "work in a clone on a local disk")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _notes(root: str) -> Iterator[Fields]:
    """List the workflows in an agent's notes that a compaction would adopt."""
    documents = unknown_workflows.detect(root)
    for document in documents:
        phase = document["phase"]
        workflow = f"{document['workflow']}, phase {phase['current']}/{phase['total']}"
        yield _check("notes", "good", f"{document['source']} describes {workflow}")
    has_notes = os.path.lexists(os.path.join(root, NOTES))
    if has_notes and NOTES not in [document["source"] for document in documents]:
        message = f"{NOTES} describes no workflow"
        hint = "add the heading Workflow state, and lines Workflow: NAME and Phase: 1/3 - NAME"
        yield _check("notes", "unknown", message, hint)


def _reading(keeper: Keeper) -> Iterator[Fields]:
    """Check whether this session's workflow has required files that were not read."""
    try:
        state = keeper.current_workflow()
    except (HoldfastError, OSError):
        return  # The ledger's own check reports it.
    if isinstance(state, Refusal) or not state["required_reading"]:
        return
    unread = [path for path in state["required_reading"] if path not in state["read"]]
    if unread:
        message = f"{state['id']}: not read since the last compaction: {', '.join(unread[:10])}"
        yield _check("reading", "unknown", message, f"holdfast show {state['id']}")
    else:
        yield _check("reading", "good", f"{state['id']}: all required files were read")


def _last_events(keeper: Keeper) -> Iterator[Fields]:
    """Report the last compaction and the last briefing in the ledger."""
    try:
        events = keeper.log(limit=MAX_EVENTS)
    except Fault:
        return
    is_whole = len(events) < MAX_EVENTS
    missing = "none recorded" if is_whole else f"none in the last {MAX_EVENTS:,} events"
    for kind, what in (
        ("context_compacted", "last compaction"),
        ("briefing_delivered", "last briefing"),
    ):
        last = next((event for event in reversed(events) if event["type"] == kind), None)
        if last is None:
            yield _check(what, "unknown", missing)
        else:
            yield _check(what, "good", _describe(last))


def _describe(event: Event) -> str:
    data = event["data"]
    details = [f"{key} {data[key]}" for key in ("trigger", "source", "characters") if key in data]
    return f"{event['at']}, {event['stream']}" + (f" ({', '.join(details)})" if details else "")


def _last_fault(keeper: Keeper) -> Iterator[Fields]:
    """Report the last line of the hooks' log: hooks never print their faults."""
    path = os.path.join(keeper.workspace.home, _HOOK_LOG)
    if not os.path.isfile(path):
        return
    raw = Disk().read_own(path, _MAX_LOG_BYTES) or b""
    lines = raw[-_LOG_TAIL_BYTES:].decode(errors="replace").splitlines()
    if lines:
        yield _check("last fault", "unknown", lines[-1], f"see {path}")

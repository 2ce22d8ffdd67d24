"""``holdfast doctor``: check that everything Holdfast needs works, with a hint where it does not.

Checks try things out: they run the hooks, take a lock from two processes, write a file. A project's
settings may come from a stranger: of the commands in them, only this installation of Holdfast and
the one on the PATH are run. A user's own settings are trusted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from errno import EDQUOT, ENOSPC

from holdfast.adopt import agent_notes
from holdfast.adopt.findings import tracked_note
from holdfast.core import json_text
from holdfast.core.refusal import Refusal, shell_word
from holdfast.errors import Fault, HoldfastError, Refused, ways_to_write
from holdfast.evidence.git import which
from holdfast.install.agents import (
    AGENTS,
    ENFORCING_EVENTS,
    HOOK,
    LOCAL,
    SCOPES,
    TEAM,
    USER,
    fastest_command,
)
from holdfast.install.client_files import (
    SERVER,
    SERVERS_FILE,
    existing_part,
    has_server,
    own_handlers,
    read_settings,
    settings_files,
    words_of,
)
from holdfast.install.sandbox import ROOTS, config_path, is_among, roots_in, sandbox_file
from holdfast.install.status_line import former_of, own_words
from holdfast.keeper.audit import NOTE
from holdfast.layers import telemetry
from holdfast.storage.database import file_system, refuse_network
from holdfast.system.disk import Disk
from holdfast.workspace import settings
from holdfast.workspace.location import NOTES, is_inside
from holdfast.workspace.trust import own_folders_inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.types import Fields
    from holdfast.install.client_files import SettingsFile
    from holdfast.keeper import Keeper

    Results = Iterator[tuple[str, str, str]]
    """Status (good, bad or unknown), what was found, and a hint; a bad one has a hint."""

RECORD_FOLDERS = (".claude", os.path.join("untracked", "workflow-state"))
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
_TIMEOUT_S = 20
_PLUGIN = "holdfast"
_HOOK_LOG = "hook.log"
_MAX_LOG_BYTES = 1024 * 1024
_MAX_NOTES = 10
_LOG_TAIL_BYTES = 4 * 1024


def examine(keeper: Keeper) -> list[Fields]:
    """Run every check; return ``what``, ``status``, ``found`` and ``hint`` of each result."""
    installation = Installation(keeper)
    return [
        {"what": what, "status": status, "found": found, "hint": hint}
        for what, check in _CHECKS
        for status, found, hint in check(installation)
    ]


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
        if self.words[0] == HOOK[0]:
            program = which(self.words[0])
            return [program, *self.words[1:]] if program else []
        fastest = fastest_command()
        is_this = bool(fastest) and self.words[: len(fastest)] == fastest
        return self.words if self.is_trusted or is_this else None


class Installation:
    """A workspace, and the hooks in the settings of all clients, the project's and the user's."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.root = keeper.workspace.root
        self.home = keeper.workspace.home
        self.hooks: list[InstalledHook] = []
        self.events: set[str] = set()
        """The events at which Holdfast is called."""
        self.troubles: list[tuple[str, str]] = []
        """Why hooks do not run: a message, and the file to edit."""
        for agent in AGENTS.values():
            for file in settings_files(agent, SCOPES, keeper.workspace):
                self._look_into(file)

    def _look_into(self, file: SettingsFile) -> None:
        try:
            settings = read_settings(file.path, file.root)
        except (json_text.BadJson, OSError) as error:
            self.troubles.append((f"{file.name} cannot be read: {error}", file.name))
            return
        if settings.get("disableAllHooks") is True:
            self.troubles.append((f"{file.name} disables all hooks (disableAllHooks)", file.name))
        client, is_user = file.agent.name, file.scope == USER
        plugins = settings.get("enabledPlugins")
        commands = []
        if client == "claude" and isinstance(plugins, dict):
            names = [name.partition("@")[0] for name, is_on in plugins.items() if is_on is True]
            commands += [list(HOOK)] if _PLUGIN in names else []
        for event, _, handler in own_handlers(settings):
            self.events.add(event)
            if words_of(handler) not in commands:
                commands.append(words_of(handler))
        for words in commands:
            self.hooks.append(InstalledHook(client, file.name, words, is_trusted=is_user))


def run(command: list[str], folder: str, stdin: bytes = b"") -> str | None:
    """Return what a program prints; ``None`` if it fails or takes too long."""
    try:
        result = subprocess.run(  # noqa: S603 - a program that the person has, or has named
            command, cwd=folder, input=stdin, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return result.stdout.decode(errors="replace") if result.returncode == 0 else None


def _hooks(installation: Installation) -> Results:
    """Check that some client calls Holdfast, and that each hook answers."""
    for message, file in installation.troubles:
        yield "bad", message, f"edit {file}"
    if not installation.hooks:
        yield "bad", "no client is set up to run Holdfast", "holdfast init"
    for hook in installation.hooks:
        yield _try_hook(hook, installation.root)
    clients = [hook.client for hook in installation.hooks]
    for client in sorted({name for name in clients if clients.count(name) > 1}):
        message = f"{client} runs Holdfast more than once at each event; remove one of the hooks"
        yield "unknown", message, f"holdfast uninstall --agent {client}"


def _try_hook(hook: InstalledHook, root: str) -> tuple[str, str, str]:
    """Run a hook, unless it came with the project, and check that it answers."""
    program = hook.program()
    if program is None:
        message = (
            f"{hook.file} runs another Holdfast, which is part of the project; it was not tried"
        )
        return "unknown", message, "holdfast init --local"
    if not program:
        return "bad", f"{hook.file}: holdfast is not on the PATH", _INSTALL_HINT
    try:
        answer = json_text.loads((run(program, root, _HOOK_PING) or "").encode())
    except json_text.BadJson:
        answer = None
    version = answer.get("holdfast") if isinstance(answer, dict) else None
    if not isinstance(version, str):
        message = f"{hook.file}: {' '.join(hook.words)[:200]} does not answer"
        return "bad", message, "holdfast init, with the same options as before"
    return "good", f"{hook.file}: answers, version {version}", ""


def _status_line(installation: Installation) -> Results:
    """Check that the client's status line answers, if ours is in its settings."""
    workspace = installation.keeper.workspace
    # Claude Code shows the status line of the first of these that has one.
    files = settings_files(AGENTS["claude"], (LOCAL, TEAM, USER), workspace)
    lines = [(file, line) for file in files if (line := file.shown_status_line())]
    ours = [file for file, line in lines if former_of(line) is not None]
    if not ours:
        return
    first, line = lines[0]
    if first not in ours:
        message = f"{first.name} has a status line that hides the one of {ours[0].name}"
        yield "bad", message, f"remove one, or: holdfast init --statusline{_option(first.scope)}"
        return
    is_trusted = first.scope == USER
    program = InstalledHook("claude", first.name, own_words(line), is_trusted=is_trusted).program()
    if program is None:
        message = f"{first.name} runs another Holdfast, which is part of the project"
        yield "unknown", message, "holdfast init --local --statusline"
    elif not program:
        yield "bad", f"{first.name}: holdfast is not on the PATH", _INSTALL_HINT
    elif not (run(program, installation.root, _HOOK_PING) or "").strip():
        message = f"{first.name}: the status line does not answer"
        yield "bad", message, f"holdfast init --statusline{_option(first.scope)}"
    else:
        yield "good", f"{first.name}: the status line answers", ""


def _option(scope: str) -> str:
    return "" if scope == TEAM else f" --{scope}"


def _server(installation: Installation) -> Results:
    """Check that the server in the project's ``.mcp.json`` answers, if it is there."""
    try:
        servers = read_settings(os.path.join(installation.root, SERVERS_FILE), installation.root)
    except (json_text.BadJson, OSError) as error:
        yield "bad", f"{SERVERS_FILE} cannot be read: {error}", f"edit {SERVERS_FILE}"
        return
    if not has_server(servers):
        return
    program = which(SERVER)
    command = [] if program is None else [program, "mcp"]
    if command and '"result"' in (run(command, installation.root, _SERVER_PING) or ""):
        yield "good", f"{SERVERS_FILE}: holdfast mcp answers", ""
    else:
        yield "bad", f"{SERVERS_FILE}: holdfast mcp does not answer", _INSTALL_HINT


def _clients(_here: Installation) -> Results:
    """List the clients on the PATH, with their versions."""
    versions = []
    for name in AGENTS:
        # Run in the root folder, so that a project has no influence on the client.
        output = run([path, "--version"], os.sep) if (path := which(name)) else None
        if output and output.split():
            versions.append(f"{name} {output.split()[0]}")
    if versions:
        yield "good", ", ".join(versions), ""
    else:
        yield "unknown", "none of claude, codex and gemini is on the PATH", ""


# Settings, folders and the sandbox


def _settings(installation: Installation) -> Results:
    """Check that Holdfast's settings are valid, and that a client asks before what is enforced."""
    try:
        enforced = settings.load(installation.root).enforced
    except HoldfastError as error:
        yield "bad", error.message, error.hint
        return
    idle = [
        name for name in enforced if not installation.events.intersection(ENFORCING_EVENTS[name])
    ]
    if idle:
        message = f"{', '.join(idle)} should be enforced, but no client runs Holdfast at that point"
        yield "bad", message, "holdfast init --enforce"
    else:
        yield "good", f"enforced: {', '.join(enforced) or 'nothing'}", ""


def _folders(installation: Installation) -> Results:
    """Check that the folders of the ledger and of the records can be written."""
    workspace = installation.keeper.workspace
    folders = [
        installation.home,
        *(os.path.join(installation.root, name) for name in RECORD_FOLDERS),
    ]
    tops = [
        os.path.realpath(top) for top in (installation.root, workspace.common or installation.root)
    ]
    ledger = existing_part(installation.home)
    results = [
        _try_to_write(folder, tops, ways_to_write(installation.home) if folder == ledger else "")
        for folder in dict.fromkeys(map(existing_part, folders))
    ]
    # If all are good, the ledger's is enough.
    yield from [result for result in results if result[0] == "bad"] or results[:1]


def _try_to_write(folder: str, tops: list[str], hint: str) -> tuple[str, str, str]:
    if not any(f"{os.path.realpath(folder)}/".startswith(f"{top}/") for top in tops):
        return "bad", f"{folder} leads out of the workspace", "remove the symbolic link"
    if not os.path.isdir(folder):
        return "bad", f"{folder} is not a folder, but has to be one", f"move {folder} away"
    probe = os.path.join(folder, f".holdfast-{os.getpid()}")
    disk = Disk()
    try:
        disk.create(probe, b"x", 0o600, durable=True)
        disk.remove(probe)
    except OSError as error:
        is_full = error.errno in (ENOSPC, EDQUOT)
        hint = "make room" if is_full else hint or f"make {folder} writable"
        return "bad", f"{folder} cannot be written ({error.strerror})", hint
    return "good", f"{folder} can be written and synced", ""


def _saves(installation: Installation) -> Results:
    """Report if an edit can be lost that is saved while Holdfast writes the same file."""
    folder = existing_part(os.path.join(installation.root, RECORD_FOLDERS[0]))
    if not is_inside(folder, installation.root):
        folder = installation.root  # A link leads out of the workspace; nothing is written there.
    try:
        can_exchange, can_move_to_free, has_leases = Disk().can_keep_saves(folder)
    except OSError:
        return  # The check of the folders reports it.
    where = f"the file system of {folder} ({file_system(folder) or 'of an unknown kind'})"
    if not can_exchange and not can_move_to_free:
        message = (
            f"{where} can neither exchange files nor link them: an edit that is saved at the "
            "moment when Holdfast replaces the file can be lost"
        )
        yield "bad", message, "work in a clone on a local disk"
    elif not can_exchange:
        message = (
            f"{where} cannot exchange files: while one is replaced, it is missing for a moment"
        )
        yield "unknown", message, ""
    if not has_leases:
        message = (
            f"{where} does not tell that a file is being written: Holdfast searches the open files "
            "of your processes, and does not see other users and machines"
        )
        yield "unknown", message, ""


def _repository(installation: Installation) -> Results:
    """Report what the repository brings and is not believed or trusted."""
    keeper = installation.keeper
    for path in keeper.store.tracked():
        yield "bad", tracked_note(path), f"git rm --cached {shell_word(path)}"
    for path in own_folders_inside(keeper.workspace):
        message = f"{path} is inside this repository, so nothing in it is trusted"
        yield "bad", message, "set HOME and the XDG variables to folders outside of it"


def _sandbox(installation: Installation) -> Results:
    """Check that Codex's commands can write the ledger, if Codex is used or installed."""
    codex = AGENTS["codex"]
    is_used = codex.name in [hook.client for hook in installation.hooks]
    if not (is_used or which(codex.name) or os.path.isdir(codex.own_folder())):
        return
    status = "bad" if is_used else "unknown"
    try:
        file = sandbox_file(installation.keeper.workspace)
        if file is None:
            return
        config = file.config()
    except (HoldfastError, OSError) as error:
        yield status, str(error), getattr(error, "hint", "") or f"make {config_path()} readable"
        return
    obstacle = file.obstacle(config)
    if obstacle is None:
        yield "good", "commands in Codex's sandbox can write the ledger", ""
    else:
        message = f"commands in Codex's sandbox cannot write the ledger: {obstacle[0]}"
        hint = f"{obstacle[1]}; or work outside it: the tools of holdfast mcp, or a terminal"
        yield status, message, hint
    for root in roots_in(config):
        if os.path.isabs(root) and not os.path.exists(root):
            is_ours = is_among(file.folder, [root])
            message = (
                f"{root} is one of Codex's {ROOTS} and does not exist; Codex may refuse to "
                "run commands"
            )
            hint = "holdfast init --agent codex" if is_ours else f"remove it from {file.name}"
            yield "bad" if is_ours else "unknown", message, hint


# The ledger and what is recorded in it


def _locks(installation: Installation) -> Results:
    """Check that a lock which this process holds is refused to another process."""
    if not os.path.isdir(installation.home):
        yield "unknown", "there is no ledger here yet", ""
        return
    path = os.path.join(installation.home, "doctor.lock")
    disk = Disk()
    try:
        fd = disk.lock(path, 1.0)
    except (OSError, HoldfastError) as error:
        yield "bad", f"cannot take a lock: {error}", ways_to_write(installation.home)
        return
    try:
        second = run([sys.executable, "-I", "-c", _SECOND, path], installation.home)
    finally:
        disk.close(fd)
        disk.remove(path)
    if second is not None and second.strip() == "refused":
        yield "good", "a lock that is held is refused to a second process", ""
    else:
        hint = "put the workspace on a local file system"
        yield "bad", "two processes can hold the same lock", hint


_SECOND = """\
import fcntl, sys
file = open(sys.argv[1])
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("refused")
"""


def _ledger(installation: Installation) -> Results:
    """Check the file system and the events of the ledger."""
    try:
        refuse_network(installation.home)
    except Fault as fault:
        yield "bad", fault.message, fault.hint
    try:
        report = installation.keeper.verify()
    except (HoldfastError, OSError) as error:
        yield "bad", str(error), "holdfast verify"
        return
    if report.ok:
        yield "good", f"{_count(report.counts['events'], 'event')}, all sound", ""
    else:
        yield "bad", _count(report.counts["errors"], "error"), "holdfast verify"
    notes = [line for line in report.lines if line["level"] == NOTE]
    for line in notes[:_MAX_NOTES]:
        yield "unknown", f"{line['what']}: {line['message']}", "holdfast verify"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _journal(installation: Installation) -> Results:
    """Report a journal mode of the ledger that is slower than the usual one."""
    try:
        mode = installation.keeper.store.ledger.database.journal_mode()
    except (HoldfastError, OSError):
        return  # The ledger's own check reports it.
    if mode not in ("", _WAL):
        message = (
            f"SQLite uses a rollback journal ({mode}) instead of WAL, as on file systems "
            f"without shared memory ({file_system(installation.home) or 'unknown here'}): safe, "
            "but slower, and readers wait for writers"
        )
        yield "unknown", message, "work in a clone on a local disk"


def _memory(installation: Installation) -> Results:
    """Check that the project's memory (L2) can be written, if somebody wants it."""
    memory = installation.keeper.memory()
    try:
        path, is_wanted = memory.path, memory.is_wanted()
    except (HoldfastError, OSError) as error:
        yield "bad", f"MEMORY.md cannot be read: {error}", "make it readable"
        return
    if path is None:
        yield "unknown", "MEMORY.md is off", ""
    elif not is_wanted:
        yield "unknown", f"{path} is not written: nobody has asked for it", ""
    elif not memory.is_available():
        part = existing_part(path)
        is_in_the_way = os.path.isdir(part) == (part == path)
        why, hint = "is not writable", f"make {part} writable"
        if is_in_the_way:
            why, hint = "is in its place", f"move {part} away"
        yield "bad", f"{path} cannot be written: {part} {why}; learnings will not persist", hint
    else:
        yield "good", f"{path} can be written", ""


def _graph(installation: Installation) -> Results:
    """Check that the memory graph (L3) answers; a server is asked."""
    layer = installation.keeper.context()[0]["layers"][-1]
    if layer["state"] == "off":
        yield "unknown", "the memory graph is off", ""
    elif layer["state"] == "unavailable":
        yield "bad", layer["why"], "mend it, then: holdfast sync"
    else:
        where = "is in the ledger" if layer["target"] == "embedded" else "answers"
        yield "good", f"the memory graph ({layer['target']}) {where}", ""


def _hub(installation: Installation) -> Results:
    """Say how the last exchange with the hub ended, and whether something is to be settled."""
    if not installation.keeper.store.ledger.exists():
        return
    from holdfast.hub import Sharing

    status = Sharing(installation.keeper).status()
    if status["hub"] is None:
        return
    where, last = f"{status['hub']['kind']} {status['hub']['where']}", status["last"]
    if last.get("failed"):
        yield "bad", last["failed"], "holdfast hub sync"
    elif status["conflicts"]:
        yield "bad", f"{where}: {_count(status['conflicts'], 'conflict')}", "holdfast conflicts"
    else:
        yield "good", f"{where}: {_count(status['unsent'], 'event')} to be sent", ""
    for stream in status["held"]:
        yield "bad", f"{stream} has events of a newer Holdfast, and waits for it", _INSTALL_HINT


def _telemetry(installation: Installation) -> Results:
    """Say how far the receiver of OpenTelemetry is; nothing is asked of it."""
    receiver = telemetry.target()
    if not receiver:
        return
    try:
        telemetry.check_ready()
    except Refused as refused:
        yield "bad", refused.message, refused.hint
        return
    store = installation.keeper.store
    position = telemetry.Position(store)
    if position.why:
        yield "bad", position.why, "holdfast sync"
    elif not position.is_known:
        yield "good", f"{receiver}: nothing was delivered yet", ""
    else:
        behind = _count(store.ledger.head_seq - position.seq, "event")
        yield "good", f"{receiver}: {behind} to be delivered", ""


def _notes(installation: Installation) -> Results:
    """List the workflows in an agent's notes that a compaction would adopt."""
    documents = agent_notes.detect(installation.root)
    for document in documents:
        phase = document["phase"]
        workflow = f"{document['workflow']}, phase {phase['current']}/{phase['total']}"
        yield "good", f"{document['source']} describes {workflow}", ""
    has_notes = os.path.lexists(os.path.join(installation.root, NOTES))
    if has_notes and NOTES not in [document["source"] for document in documents]:
        hint = "add the heading Workflow state, and lines Workflow: NAME and Phase: 1/3 - NAME"
        yield "unknown", f"{NOTES} describes no workflow", hint


def _reading(installation: Installation) -> Results:
    """Check whether this session's workflow has required files that were not read."""
    try:
        state = installation.keeper.current_workflow()
    except (HoldfastError, OSError):
        return  # The ledger's own check reports it.
    if isinstance(state, Refusal) or not state["required_reading"]:
        return
    missing = installation.keeper.missing_reading(state)
    if missing:
        message = f"{state['id']}: required files are missing: {', '.join(missing[:10])}"
        hint = f"write it, or: holdfast read --remove {shell_word(missing[0])}"
        yield "bad", message, hint
    unread = [path for path in state["required_reading"] if path not in state["read"]]
    if unread:
        message = f"{state['id']}: not read since the last compaction: {', '.join(unread[:10])}"
        yield "unknown", message, f"holdfast show {state['id']}"
    else:
        yield "good", f"{state['id']}: all required files were read", ""


def _last(kind: str) -> Callable[[Installation], Results]:
    """Return a check that reports the last event of a kind in the ledger."""

    def check(installation: Installation) -> Results:
        try:
            events = installation.keeper.log(limit=MAX_EVENTS)
        except Fault:
            return
        last = next((event for event in reversed(events) if event["type"] == kind), None)
        if last is None:
            is_whole = len(events) < MAX_EVENTS
            missing = "none recorded" if is_whole else f"none in the last {MAX_EVENTS:,} events"
            yield "unknown", missing, ""
            return
        data, names = last["data"], ("trigger", "source", "characters")
        details = ", ".join([f"{name} {data[name]}" for name in names if name in data])
        yield "good", f"{last['at']}, {last['stream']}" + (f" ({details})" if details else ""), ""

    return check


def _last_fault(installation: Installation) -> Results:
    """Report the last line of the hooks' log: hooks never print their faults."""
    path = os.path.join(installation.home, _HOOK_LOG)
    if not os.path.isfile(path):
        return
    raw = Disk().read_own(path, _MAX_LOG_BYTES) or b""
    lines = raw[-_LOG_TAIL_BYTES:].decode(errors="replace").splitlines()
    lines = [line for line in lines if line[24:31] != " note: "]
    if lines:
        yield "unknown", lines[-1], f"see {path}"


_CHECKS: tuple[tuple[str, Callable[[Installation], Results]], ...] = (
    ("hooks", _hooks),
    ("status line", _status_line),
    ("server", _server),
    ("clients", _clients),
    ("settings", _settings),
    ("folders", _folders),
    ("saves", _saves),
    ("repository", _repository),
    ("sandbox", _sandbox),
    ("locks", _locks),
    ("ledger", _ledger),
    ("journal", _journal),
    ("memory", _memory),
    ("graph", _graph),
    ("hub", _hub),
    ("telemetry", _telemetry),
    ("notes", _notes),
    ("reading", _reading),
    ("last compaction", _last("context_compacted")),
    ("last briefing", _last("briefing_delivered")),
    ("last fault", _last_fault),
)

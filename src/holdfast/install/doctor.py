"""``doctor``: whether everything that Holdfast needs works here, and what mends what does not.

Everything is tried, not looked up: hooks are run, a lock is taken twice, a file is written.
"""

from __future__ import annotations

import os
import sys
from errno import EDQUOT, ENOSPC

from holdfast.adopt import note_parser
from holdfast.core import json_text
from holdfast.core.refusal import Refusal
from holdfast.errors import Fault, HoldfastError
from holdfast.install import sandbox, servers
from holdfast.install.agents import AGENTS
from holdfast.install.client_files import sandbox_of
from holdfast.install.installed import (
    INSTALL,
    connections,
    run,
    settings_in,
    version_of,
    ways_to_mend,
    which,
)
from holdfast.storage.database import file_system, refuse_network, ways_to_write
from holdfast.system.disk import Disk
from holdfast.workspace import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.types import Event, Fields
    from holdfast.keeper import Keeper

CLIENTS = ("claude", "codex", "gemini")
RECORDS = (".claude", os.path.join("untracked", "workflow-state"))
ENFORCING = {"reading": ("PreToolUse", "BeforeTool"), "stop": ("Stop", "AfterAgent")}
"""The events at which what is enforced can be."""
LATELY = 5_000
_WAL = "wal"
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
_LOG = "hook.log"
_LOG_END = 4_096
_LOG_MOST = 1 << 20


def examine(keeper: Keeper) -> list[Fields]:
    """Every check: ``what``, ``status`` (``good``, ``bad``, ``unknown``), ``found``, ``hint``."""
    return [
        *_hooks(keeper.workspace.root),
        *_server(keeper.workspace.root),
        *_clients(),
        _settings(keeper),
        *_writable(keeper),
        *_sandbox(keeper),
        _lock(keeper),
        *_ledger(keeper),
        *_notes(keeper.workspace.root),
        *_reading(keeper),
        *_lately(keeper),
        *_faults(keeper),
    ]


def _check(what: str, status: str, found: str, hint: str = "") -> Fields:
    return {"what": what, "status": status, "found": found, "hint": hint}


def _hooks(root: str) -> Iterator[Fields]:
    found = connections(root)
    for said, file in found.troubles:
        yield _check("hooks", "bad", said, f"edit {file}")
    if not found.calls:
        yield _check("hooks", "bad", "no client is told to call Holdfast", "holdfast init")
    for _, call in found.calls:
        program = call.program()
        if program is None:
            said = f"{call.shown} starts another Holdfast, which came with the project: not run"
            yield _check("hooks", "unknown", said, "holdfast init --local, to start this one")
            continue
        version = version_of(program, root) if program else None
        if version is None:
            yield _check("hooks", "bad", *ways_to_mend(call))
        else:
            yield _check("hooks", "good", f"{call.shown}: answers, version {version}")
    clients = [client for client, _ in found.calls]
    for client in sorted({name for name in clients if clients.count(name) > 1}):
        said = f"{client} calls Holdfast more than once at each event; one is enough"
        yield _check("hooks", "unknown", said, f"holdfast uninstall --agent {client}")


def _server(root: str) -> Iterator[Fields]:
    """Whether the server that the project offers to its team answers."""
    try:
        told = settings_in(os.path.join(root, servers.FILE), root)
    except (json_text.BadJson, OSError) as error:
        said = f"{servers.FILE} cannot be read: {error}"
        yield _check("server", "bad", said, f"edit {servers.FILE}")
        return
    if not servers.has_ours_in(told):
        return
    program = which(servers.NAME)
    words = [] if program is None else [program, *servers.OURS["args"]]
    if words and '"result"' in (run(words, root, _PING) or ""):
        yield _check("server", "good", f"{servers.FILE}: holdfast mcp answers")
    else:
        yield _check("server", "bad", f"{servers.FILE}: holdfast mcp does not answer", INSTALL)


def _clients() -> Iterator[Fields]:
    programs = [(name, which(name)) for name in CLIENTS]
    # In no project: what stands there is not for a client that only says its version.
    found = [(name, run([path, "--version"], os.sep)) for name, path in programs if path]
    there = [f"{name} {told.split()[0]}" for name, told in found if told and told.split()]
    if there:
        yield _check("clients", "good", ", ".join(there))
    else:
        yield _check("clients", "unknown", "neither claude, codex nor gemini is on the path")


def _settings(keeper: Keeper) -> Fields:
    try:
        enforced = settings.load(keeper.workspace.root).enforced()
    except HoldfastError as error:
        return _check("settings", "bad", error.message, error.hint)
    events = connections(keeper.workspace.root).events
    idle = [name for name in enforced if not events.intersection(ENFORCING[name])]
    if idle:
        said = f"enforced is {', '.join(idle)}, and no client calls Holdfast at that point"
        return _check("settings", "bad", said, "holdfast init --enforce")
    return _check("settings", "good", f"enforced: {', '.join(enforced) or 'nothing'}")


def _writable(keeper: Keeper) -> Iterator[Fields]:
    root, home = keeper.workspace.root, keeper.workspace.home
    wanted = [home, *(os.path.join(root, name) for name in RECORDS)]
    tops = [os.path.realpath(top) for top in (root, keeper.workspace.common or root)]
    ledger = _nearest(home)
    tried = [
        _try_to_write(folder, tops, ways_to_write(home) if folder == ledger else "")
        for folder in dict.fromkeys(map(_nearest, wanted))
    ]
    # One good one stands for all.
    yield from [one for one in tried if one["status"] == "bad"] or tried[:1]


def _nearest(folder: str) -> str:
    """The folder, or what stands where the first one that is missing would be made."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def _try_to_write(folder: str, tops: list[str], mend: str) -> Fields:
    if not any(f"{os.path.realpath(folder)}/".startswith(f"{top}/") for top in tops):
        said = f"{folder} leads out of the workspace"
        return _check("folders", "bad", said, "remove the symbolic link")
    if not os.path.isdir(folder):
        said = f"{folder} is not a folder, and one is needed there"
        return _check("folders", "bad", said, f"move {folder} away")
    probe = os.path.join(folder, f".holdfast-{os.getpid()}")
    disk = Disk()
    try:
        disk.create(probe, b"x", 0o600, durable=True)
        disk.remove(probe)
    except OSError as error:
        is_full = error.errno in (ENOSPC, EDQUOT)
        hint = "make room" if is_full else mend or f"make {folder} writable"
        return _check("folders", "bad", f"{folder} cannot be written ({error.strerror})", hint)
    return _check("folders", "good", f"{folder} can be written and synced")


def _sandbox(keeper: Keeper) -> Iterator[Fields]:
    """Whether the commands that Codex runs may write the ledger, where somebody uses Codex."""
    codex = AGENTS["codex"]
    clients = [client for client, _ in connections(keeper.workspace.root).calls]
    is_used = codex.name in clients
    if not (is_used or which(codex.name) or os.path.isdir(codex.own_folder())):
        return
    try:
        place = sandbox_of(codex, keeper.workspace)
        if place is None:
            return
        config = place.config(Disk())
    except (HoldfastError, OSError) as error:
        hint = getattr(error, "hint", "") or f"make {sandbox.config_path()} readable"
        yield _check("sandbox", "bad" if is_used else "unknown", str(error), hint)
        return
    found = sandbox.obstacle(config, place.team_config(Disk()), place.folder)
    if found is None:
        yield _check("sandbox", "good", "the commands that Codex runs may write the ledger")
    else:
        said = f"the commands that Codex runs cannot write the ledger: {found[0]}"
        hint = f"{found[1]}; or have it done outside, by the tools of holdfast mcp or a person"
        yield _check("sandbox", "bad" if is_used else "unknown", said, hint)
    for root in sandbox.roots_in(config):
        if os.path.isabs(root) and not os.path.exists(root):
            is_here = sandbox.is_among(place.folder, [root])
            said = f"{root} is among Codex's {sandbox.ROOTS} and is gone: it may start no command"
            hint = "holdfast init --agent codex" if is_here else f"take it out of {place.shown}"
            yield _check("sandbox", "bad" if is_here else "unknown", said, hint)


def _lock(keeper: Keeper) -> Fields:
    """Whether a lock that one process holds is refused to another, on this file system."""
    home = keeper.workspace.home
    if not os.path.isdir(home):
        return _check("locks", "unknown", "there is no ledger here yet", "")
    path = os.path.join(home, "doctor.lock")
    disk = Disk()
    try:
        fd = disk.lock(path, 1.0)
    except (OSError, HoldfastError) as error:
        return _check("locks", "bad", f"no lock can be had: {error}", ways_to_write(home))
    try:
        second = run([sys.executable, "-I", "-c", _SECOND, path], home)
    finally:
        disk.close(fd)
        disk.remove(path)
    if second is not None and second.strip() == "refused":
        return _check("locks", "good", "a second process is kept out")
    hint = "put the workspace on a local file system"
    return _check("locks", "bad", "a second process gets the same lock", hint)


_SECOND = """\
import fcntl, sys
file = open(sys.argv[1])
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("refused")
"""


def _ledger(keeper: Keeper) -> Iterator[Fields]:
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
        said = f"{_many(report.counts['events'], 'event')}, all sound"
        yield _check("ledger", "good", said)
    else:
        yield _check("ledger", "bad", _many(report.counts["errors"], "error"), "holdfast verify")
    if journal not in ("", _WAL):
        said = (
            f"SQLite keeps its journal in the old way ({journal}), as it does where processes "
            f"cannot share memory ({file_system(folder) or 'an unknown file system'}): it is safe, "
            "and slower, and readers wait for a writer"
        )
        yield _check("journal", "unknown", said, "work in a clone on a local disk")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _notes(root: str) -> Iterator[Fields]:
    """What a compaction would take in, for those who wonder why it did not."""
    found = note_parser.detect(root)
    for document in found:
        phase = document["phase"]
        said = f"{document['workflow']}, phase {phase['current']}/{phase['total']}"
        yield _check("notes", "good", f"{document['source']} tells of {said}")
    if os.path.lexists(os.path.join(root, note_parser.NOTES)) and note_parser.NOTES not in [
        document["source"] for document in found
    ]:
        said = f"{note_parser.NOTES} tells of no workflow"
        hint = "write in it: Workflow state, and lines with Workflow: NAME and Phase: 1/3 - NAME"
        yield _check("notes", "unknown", said, hint)


def _reading(keeper: Keeper) -> Iterator[Fields]:
    """Whether what this session's workflow requires was read."""
    try:
        found = keeper.mine()
    except (HoldfastError, OSError):
        return  # The ledger's own check says why.
    if isinstance(found, Refusal) or not found["required_reading"]:
        return
    unread = [path for path in found["required_reading"] if path not in found["read"]]
    if unread:
        said = f"{found['id']}: not read since the last compaction: {', '.join(unread[:10])}"
        yield _check("reading", "unknown", said, f"holdfast show {found['id']}")
    else:
        yield _check("reading", "good", f"{found['id']}: all of it was read")


def _faults(keeper: Keeper) -> Iterator[Fields]:
    """The last line of the hooks' log: a hook itself says nothing."""
    path = os.path.join(keeper.workspace.home, _LOG)
    if not os.path.isfile(path):
        return
    raw = Disk().read_own(path, _LOG_MOST) or b""
    lines = raw[-_LOG_END:].decode(errors="replace").splitlines()
    if lines:
        yield _check("last fault", "unknown", lines[-1], f"see {path}")


def _lately(keeper: Keeper) -> Iterator[Fields]:
    """When the hooks last did their work, by what the ledger says."""
    try:
        events = keeper.log(limit=LATELY)
    except Fault:
        return
    none = "none is recorded" if len(events) < LATELY else f"none in the last {LATELY:,} events"
    for kind, what in (
        ("context_compacted", "last compaction"),
        ("briefing_delivered", "last briefing"),
    ):
        last = next((event for event in reversed(events) if event["type"] == kind), None)
        yield _check(what, "unknown" if last is None else "good", _told(last) if last else none)


def _told(event: Event) -> str:
    data = event["data"]
    about = [f"{key} {data[key]}" for key in ("trigger", "source", "characters") if key in data]
    return f"{event['at']}, {event['stream']}" + (f" ({', '.join(about)})" if about else "")

"""``doctor``: whether everything that Holdfast needs works here, and what mends what does not.

Everything is tried, not looked up: hooks are run, a lock is taken twice, a file is written.
"""

from __future__ import annotations

import os
import subprocess
import sys

from holdfast import jsontext
from holdfast.disk import Disk
from holdfast.errors import Fault, HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.shapes import Event, Fields, Json
    from holdfast.keeper import Keeper

CLIENTS = ("claude", "codex", "gemini")
SETTINGS = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    "~/.claude/settings.json",
    ".codex/hooks.json",
    "~/.codex/hooks.json",
    ".gemini/settings.json",
    "~/.gemini/settings.json",
)
_ENTRY = os.path.join("holdfast", "hooks", "entry.py")
_LIMIT_S = 20


def examine(keeper: Keeper) -> list[Fields]:
    """Every check: ``what``, ``status`` (``good``, ``bad``, ``unknown``), ``found``, ``hint``."""
    root = keeper.workspace.root
    return [
        *_hooks(root),
        *_clients(),
        _writable(keeper),
        _lock(keeper),
        _ledger(keeper),
        *_lately(keeper),
    ]


def _check(what: str, status: str, found: str, hint: str = "") -> Fields:
    return {"what": what, "status": status, "found": found, "hint": hint}


def _hooks(root: str) -> Iterator[Fields]:
    found = list(_installed(root))
    if not found:
        yield _check("hooks", "bad", "no client is told to call Holdfast", "holdfast init")
    for path, command in found:
        version = _ping(command, root)
        if version is None:
            said = f"{path}: {' '.join(command)} does not answer"
            yield _check("hooks", "bad", said, "holdfast init, with the same options as before")
        else:
            yield _check("hooks", "good", f"{path}: answers, version {version}")


def _installed(root: str) -> Iterator[tuple[str, list[str]]]:
    """The settings that call Holdfast, and how; each command once a file."""
    for name in SETTINGS:
        path = os.path.expanduser(name) if name.startswith("~") else os.path.join(root, name)
        seen = []
        for command in _commands(_settings(path).get("hooks")):
            if command not in seen:
                seen.append(command)
                yield name, command


def _settings(path: str) -> Fields:
    try:
        found = jsontext.loads(Disk().read(path) or b"{}")
    except (jsontext.BadJson, OSError):
        return {}
    return found if isinstance(found, dict) else {}


def _commands(hooks: Json) -> Iterator[list[str]]:
    """Our commands, wherever they stand in the settings' hooks."""
    inner = hooks.values() if isinstance(hooks, dict) else hooks if isinstance(hooks, list) else ()
    command = hooks.get("command") if isinstance(hooks, dict) else None
    if isinstance(command, str):
        args = hooks.get("args") if isinstance(hooks.get("args"), list) else None
        words = [command, *map(str, args)] if args is not None else ["/bin/sh", "-c", command]
        if "holdfast hook" in command or any(_ENTRY in word for word in words):
            yield words
        return
    for item in inner:
        yield from _commands(item)


def _ping(command: list[str], root: str) -> str | None:
    from holdfast.hooks.first import PING

    answer = _run(command, root, jsontext.dumps({"hook_event_name": PING}).encode())
    try:
        told = jsontext.loads((answer or "").encode())
    except jsontext.BadJson:
        return None
    version = told.get("holdfast") if isinstance(told, dict) else None
    return version if isinstance(version, str) else None


def _run(command: list[str], folder: str, given: bytes = b"") -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - what the person's own settings name, or a client
            command, cwd=folder, input=given, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def _clients() -> Iterator[Fields]:
    found = [(name, _run([name, "--version"], os.getcwd())) for name in CLIENTS]
    there = [f"{name} {told.split()[0]}" for name, told in found if told and told.split()]
    if there:
        yield _check("clients", "good", ", ".join(there))
    else:
        yield _check("clients", "unknown", "neither claude, codex nor gemini is on the path")


def _writable(keeper: Keeper) -> Fields:
    home = keeper.workspace.home
    folder = home if os.path.isdir(home) else os.path.dirname(os.path.dirname(home))
    probe = os.path.join(folder, f".holdfast-{os.getpid()}")
    disk = Disk()
    try:
        disk.create(probe, b"x", 0o600, durable=True)
        disk.remove(probe)
    except OSError as error:
        hint = f"make {folder} writable, or make room"
        return _check("folders", "bad", f"{folder} cannot be written ({error.strerror})", hint)
    return _check("folders", "good", f"{folder} can be written and synced")


def _lock(keeper: Keeper) -> Fields:
    """Whether a lock that one process holds is refused to another, on this file system."""
    home = keeper.workspace.home
    if not os.path.isdir(home):
        return _check("locks", "unknown", "there is no ledger here yet", "")
    path = os.path.join(home, "doctor.lock")
    disk = Disk()
    fd = disk.lock(path, 1.0)
    try:
        second = _run([sys.executable, "-c", _SECOND, path], home)
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


def _ledger(keeper: Keeper) -> Fields:
    try:
        report = keeper.verify()
    except (HoldfastError, OSError) as error:
        return _check("ledger", "bad", str(error), "holdfast verify")
    if not report.ok:
        return _check("ledger", "bad", f"{report.counts['errors']} errors", "holdfast verify")
    return _check("ledger", "good", f"{report.counts['events']} events, all sound")


def _lately(keeper: Keeper) -> Iterator[Fields]:
    """When the hooks last did their work, by what the ledger says."""
    try:
        events = keeper.log(limit=5_000)
    except Fault:
        return
    for kind, what in (
        ("context_compacted", "last compaction"),
        ("briefing_delivered", "last briefing"),
    ):
        last = next((event for event in reversed(events) if event["type"] == kind), None)
        yield _check(what, "unknown" if last is None else "good", _told(last))


def _told(event: Event | None) -> str:
    if event is None:
        return "none is recorded"
    data = event["data"]
    about = [f"{key} {data[key]}" for key in ("trigger", "source", "characters") if key in data]
    return f"{event['at']}, {event['stream']}" + (f" ({', '.join(about)})" if about else "")

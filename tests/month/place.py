"""Where a month happens: worktrees as git lays them out, and a process whose clock, ids,
environment and Memory server are the month's own.
"""

import contextlib
import os
import random
import types
from unittest import mock

from holdfast import Keeper
from holdfast.hooks import handlers, quick_check
from holdfast.layers.graph import mcp_delivery
from holdfast.system import disk as system_disk
from holdfast.system import kernel
from holdfast.workspace import location, trust
from month.world import AgentDisk

WORKTREES = 4
SERVER = '{"mcpServers": {"memory": {"command": "memory-server"}}}'


def lay_out(folder):
    """A repository with three linked worktrees, as git lays them out, without running git."""
    main = os.path.join(folder, "repo")
    git = os.path.join(main, ".git")
    roots = [main, *(os.path.join(folder, f"side{n}") for n in range(1, WORKTREES))]
    for place in ("objects", "refs/heads", "info"):
        os.makedirs(os.path.join(git, place))
    _put(os.path.join(git, "HEAD"), "ref: refs/heads/main\n")
    _put(os.path.join(git, "config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    for root in roots:
        os.makedirs(os.path.join(root, "docs"))
        for page in ("plan", "more", "third"):
            _put(os.path.join(root, "docs", f"{page}.md"), f"# {page}\n")
        _put(os.path.join(root, ".mcp.json"), SERVER)
        if root != main:
            own = os.path.join(git, "worktrees", os.path.basename(root))
            os.makedirs(own)
            _put(os.path.join(own, "HEAD"), "ref: refs/heads/main\n")
            _put(os.path.join(own, "commondir"), "../..\n")
            _put(os.path.join(own, "gitdir"), f"{root}/.git\n")
            _put(os.path.join(root, ".git"), f"gitdir: {own}\n")
    return roots


def _put(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def approve(month):
    """The person approved the server, long ago."""
    for root in month.roots:
        found = location.find(root)
        server = trust.find_server(found, "memory")
        trust.approve(found, [server.text], "2026-01-01T00:00:00.000Z")


@contextlib.contextmanager
def inhabited(month):
    """While a month runs, whatever Holdfast takes from its process comes from the month's world."""
    chance = random.Random(f"ids {month.seed}")

    def reach(_server, _folder, _limit_s, work):
        is_down = month.graph_is_down
        if is_down and month.world.lots.random() < 0.5:
            raise mcp_delivery.Unreachable("it is down")
        done = work(month.graph)
        if is_down:
            raise mcp_delivery.Unreachable("its answer was lost")
        return done

    def keeper_of_hook(root, **options):
        world = month.world
        disk = AgentDisk(world, world.here)
        return Keeper(root, clock_ms=world.now, sleep=world.pause, disk=disk, **options)

    def read():
        return month.world.here.hook.read()

    def printed(answer):
        month.world.here.hook.printed(answer)

    log_fault = quick_check.log_fault

    def logged(workspace, error):
        disk = AgentDisk(month.world, month.world.here)
        with mock.patch.object(system_disk, "Disk", return_value=disk):
            log_fault(workspace, error)

    places = [
        (handlers, "Keeper", keeper_of_hook),
        (handlers, "log_fault", logged),
        (quick_check, "log_fault", logged),
        (quick_check, "time", types.SimpleNamespace(time_ns=lambda: month.world.now() * 1_000_000)),
        # A month's clock is its own, so nothing watches how long a hook really takes.
        (quick_check, "start_new_thread", lambda *_arguments: 0),
        (quick_check, "read_input", read),
        (quick_check, "_print", printed),
        (os, "urandom", chance.randbytes),
        # The holder of a lock is named in a note, and so in a briefing.
        (kernel, "_holder", lambda _fd: "another process"),
        (mcp_delivery, "reach", reach),
    ]  # fmt: skip
    before = [getattr(where, name) for where, name, _ in places]
    environment = dict(os.environ)
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "CODEX", "HOLDFAST_"))]:
        del os.environ[name]
    person = os.path.join(month.folder, "person")
    os.environ |= {
        "HOLDFAST_BACKGROUND": "off",
        "HOME": person,
        "XDG_CONFIG_HOME": os.path.join(person, ".config"),
        "XDG_STATE_HOME": os.path.join(person, ".local", "state"),
        "HOLDFAST_MEMORY": month.memory,
        "HOLDFAST_GRAPH": month.graph_kept_by,
    }
    try:
        for where, name, value in places:
            setattr(where, name, value)
        yield
    finally:
        for (where, name, _), value in zip(places, before, strict=True):
            setattr(where, name, value)
        os.environ.clear()
        os.environ |= environment

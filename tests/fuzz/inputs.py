"""What the targets stand on: one folder in memory for this process, and a workspace in it."""

import atexit
import functools
import os
import shutil
import tempfile

import holdfast
from holdfast import Keeper
from support.git_template import make_repository
from support.paths import SAMPLES, TESTS
from support.workshop import Clock, open_workflow

_MEMORY = "/dev/shm"


@functools.cache
def folder():
    """A folder of this process; gone when it ends."""
    in_memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made = tempfile.mkdtemp(prefix="holdfast-fuzz-", dir=in_memory)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def written(name, data):
    """The path of a file in that folder with these bytes in it."""
    path = os.path.join(folder(), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


@functools.cache
def workspace():
    """A repository with a workflow of this session in it, and what a hook is asked about."""
    root = os.path.join(folder(), "work")
    make_repository(root)
    keeper = Keeper(root, session="session-1", clock_ms=Clock())
    open_workflow(keeper, "skill")
    for name, text in (
        (".claude/holdfast.toml", 'enforce = ["reading", "stop"]\n'),
        ("docs/plan.md", "Read me.\n"),
    ):
        written(os.path.join("work", name), text.encode())
    return root


def empty_workspace():
    """Return a folder in which nothing was recorded yet."""
    root = os.path.join(folder(), "empty")
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    return root


@functools.cache
def exports():
    """Return exports: of a small ledger, of one workflow, and the beginning of a long one."""
    keeper = Keeper(empty_workspace(), clock_ms=Clock())
    workflow = open_workflow(keeper, "skill")["id"]
    keeper.remember("a learning")
    whole, alone = keeper.export(), keeper.export(workflow=workflow)
    return [
        "\n".join(whole).encode(),
        "\n".join(alone).encode(),
        b"\n".join(history()[:12]),
    ]


def samples(prefix):
    """The records that tests have for examples, as bytes."""
    names = sorted(name for name in os.listdir(SAMPLES) if name.startswith(prefix))
    return [_bytes(os.path.join(SAMPLES, name)) for name in names]


def _bytes(path):
    with open(path, "rb") as file:
        return file.read()


def history():
    """Lines of a ledger that an earlier version wrote."""
    raw = _bytes(os.path.join(TESTS, "histories", "0.1.0", "ledger.ndjson"))
    return raw.split(b"\n")[:-1]


def test_logs():
    """What the runners print, cut where a fuzzer would have no end of it."""
    place = os.path.join(TESTS, "evidence", "outputs")
    return [_bytes(os.path.join(place, name))[:4_000] for name in sorted(os.listdir(place))]


def recipes():
    place = os.path.join(os.path.dirname(holdfast.__file__), "recipes")
    names = sorted(name for name in os.listdir(place) if name.endswith(".toml"))
    return [_bytes(os.path.join(place, name)) for name in names]

"""What is measured, and what with: prepared workspaces, a fresh installation, jq.

Everything is in one temporary folder. Set-up goes through the library, but does not wait for the
disk: only what is measured is synced.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from glob import glob
from importlib.metadata import distribution
from itertools import count, cycle, islice

from holdfast import Keeper
from holdfast.storage.ledger import ACTIVE
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.storage.skill_index import Indexes

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TASKS = 10
REASON = "review"
_EVENTS_AT_ONCE = 10_000
_WORKFLOWS_AT_ONCE = 500
_REQUIRED = ("markdown-it-py", "mdurl", "ruamel.yaml")
"""What an installer brings along with Holdfast."""


class Unsynced(Disk):
    """A disk that waits for nothing, for set-up alone."""

    def sync(self, fd: int) -> None:
        """Do nothing: set-up does not have to outlive a power cut."""

    def sync_folder(self, path: str) -> None:
        """Do nothing, for the same reason."""


class _NoIndexes:
    """Stands in for a workspace's indexes while thousands of workflows are opened."""

    def __init__(self, indexes: Indexes, worktree: str) -> None:
        self._indexes = indexes
        self._worktree = worktree

    def doubted(self, *_states: object) -> list[object]:
        return []

    def show(self, *_change: object) -> None:
        """Leave the index as it is."""

    def mend(self) -> None:
        """Leave the index as it is."""

    def write(self) -> None:
        """Write the index once, as the ledger has it."""
        index = self._indexes.of(self._worktree)
        assert index is not None
        index.rebuild()


class Workspace:
    """A git repository with workflows in it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.ids: list[str] = []
        """The active workflows."""
        os.makedirs(folder)
        subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        words = [*who, "commit", "-q", "--allow-empty", "-m", "begin"]
        subprocess.run(["git", "-C", folder, *words], check=True)
        self.setup = self._unsynced_keeper()

    def _unsynced_keeper(self, session: str | None = None) -> Keeper:
        keeper = Keeper(self.folder, session=session, disk=Unsynced())
        with keeper.session.transaction():
            pass  # It makes the ledger, and leaves its connection open.
        keeper.store.ledger.database.execute("PRAGMA synchronous = OFF")
        return keeper

    def keeper(self) -> Keeper:
        """Return a keeper whose changes are durable."""
        return Keeper(self.folder)

    def open(self, number: int, tasks: int = TASKS) -> Workspace:
        """Start so many workflows more, all of them like the first."""
        texts = [f"write the part number {task} of the feature" for task in range(1, tasks + 1)]
        if number and not self.ids:
            self.ids.append(self.setup.start("dev", "features/00000.md", tasks=texts).state["id"])
            number -= 1
        self._copy_first("open", number, [])
        return self

    def end(self, number: int) -> Workspace:
        """Start and end so many workflows: one half is completed, the other abandoned."""
        complete = ("complete_workflow", {"force": True, "reason": REASON, "outcome": None})
        abandon = ("abandon_workflow", {"reason": REASON})
        for end in (complete, abandon):
            self._copy_first(end[0], number // 2, [end])
        return self

    def _copy_first(self, name: str, number: int, ends: list[tuple[str, dict]]) -> None:
        """Record the first workflow's events again for others, and end them.

        Below ``start``, because each is a commit of its own that writes the whole index.
        """
        events = self.setup.log(workflow=self.ids[0])
        text = json.dumps([{"type": event["type"], "data": event["data"]} for event in events])
        numbers = iter(range(number))
        store, session = self.setup.store, self.setup.session
        indexes, store.indexes = store.indexes, _NoIndexes(store.indexes, store.workspace.name)
        while batch := list(islice(numbers, _WORKFLOWS_AT_ONCE)):
            with session.transaction() as tx:
                for position in batch:
                    workflow = f"dev-{name[0]}{len(self.ids):03}{position:05}"
                    own = text.replace(self.ids[0], workflow)
                    own = own.replace("features/00000.md", f"features/{workflow}.md")
                    tx.append(workflow, json.loads(own), None)
                    for kind, args in ends:
                        tx.do(workflow, kind, args)
                    if not ends:
                        self.ids.append(workflow)
        store.indexes.write()
        store.indexes = indexes

    def bind(self, session: str, position: int = 0) -> None:
        """Make a workflow a session's own."""
        self._unsynced_keeper(session).resume(workflow=self.ids[position])

    def fill(self, events: int) -> Workspace:
        """Go on with the first workflow until the ledger has so many events.

        Below the keeper, because many commits of one event each would take minutes.
        """
        last = self.setup.show(workflow=self.ids[0]).state["tasks"][-1]
        drafts = [
            {"type": "task_started", "data": {"task": last["id"]}},
            {"type": "task_blocked", "data": {"task": last["id"], "reason": REASON}},
        ]
        turns = cycle(reversed(drafts) if last["status"] == "in_progress" else drafts)
        ledger, session = self.setup.store.ledger, self.setup.session
        while (missing := events - ledger.head_seq) > 0:
            with session.transaction() as tx:
                tx.load(self.ids[0])
                tx.append(self.ids[0], list(islice(turns, min(missing, _EVENTS_AT_ONCE))), None)
        return self

    def counts(self) -> tuple[int, int]:
        """Return how many workflows are active, and how many have ended."""
        ledger = self.setup.store.ledger
        active = ledger.count(ACTIVE)
        return active, ledger.count("kind = 'workflow'") - active

    def ledger_file(self) -> str:
        return self.setup.store.ledger.database.path


def turns_of(keeper: Keeper, workflow: str) -> Iterator[list[str]]:
    """Yield commands that can follow each other for ever: start the last task, block it, start."""
    task = keeper.show(workflow=workflow).state["tasks"][-1]
    number = str(task["id"])
    start, block = ["task", "start", number], ["task", "block", number, "--reason", REASON]
    return cycle((block, start) if task["status"] == "in_progress" else (start, block))


def swinging(keeper: Keeper, workflow: str) -> Callable[[], None]:
    """Return a call of the library that does the same."""
    turns = turns_of(keeper, workflow)

    def swing() -> None:
        _, verb, task, *_ = next(turns)
        if verb == "start":
            keeper.start_task(task, workflow=workflow)
        else:
            keeper.block_task(task, REASON, workflow=workflow)

    return swing


class Workshop:
    """The temporary folder, and the ways to start Holdfast."""

    def __init__(self, folder: str, *, at_hand: bool) -> None:
        self.folder = folder
        self._numbers = count(1)
        self.env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": folder}
        if at_hand:
            self.python = sys.executable
            self.script = ""
            self.made_by = "not installed: this interpreter, with the source on its path"
            self.env["PYTHONPATH"] = os.path.join(ROOT, "src")
        else:
            self._install()

    def _install(self) -> None:
        """Make an environment with Holdfast and what it needs, as a user would have it."""
        wheels, target = os.path.join(self.folder, "wheels"), os.path.join(self.folder, "env")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        quietly = ["-q", "--no-deps", "--no-index"]
        _run([*pip, "wheel", *quietly, "--no-build-isolation", "-w", wheels, ROOT])
        _run([sys.executable, "-m", "venv", "--without-pip", target])
        self.python = os.path.join(target, "bin", "python")
        _run([*pip, "--python", self.python, "install", *quietly, *glob(f"{wheels}/*.whl")])
        (packages,) = glob(os.path.join(target, "lib", "*", "site-packages"))
        for name in _REQUIRED:
            _copy_package(name, packages)
        self.script = os.path.join(target, "bin", "holdfast")
        version = subprocess.run([*pip, "--version"], capture_output=True, text=True, check=True)
        self.made_by = f"from a wheel, by pip {version.stdout.split()[1]}, with our own script"

    @property
    def pass_(self) -> list[str]:
        """Return what everything is compared with."""
        return [self.python, "-I", "-c", "pass"]

    @property
    def module(self) -> list[str]:
        return [self.python, "-m", "holdfast"]

    @property
    def best(self) -> list[str]:
        """Return the console script, or the module where there is none."""
        return [self.script] if self.script else self.module

    @property
    def hook(self) -> list[str]:
        """Return how a client starts a hook."""
        asked = [self.python, "-c", "import holdfast.hooks.entry as entry; print(entry.__file__)"]
        answer = subprocess.run(asked, env=self.env, capture_output=True, text=True, check=True)
        return [self.python, "-I", "-S", answer.stdout.strip()]

    def run(self, folder: str, *words: str) -> str:
        """Run a command of Holdfast for set-up, and return what it printed."""
        asked = [*self.best, *words]
        answer = subprocess.run(
            asked, cwd=folder, env=self.env, capture_output=True, text=True, check=False
        )
        if answer.returncode:
            raise RuntimeError(f"{' '.join(words)}: {answer.stdout}{answer.stderr}")
        return answer.stdout

    def workspace(self) -> Workspace:
        return Workspace(os.path.join(self.folder, f"workspace-{next(self._numbers)}"))

    def tasks(self, number: int) -> Iterator[tuple[str, str]]:
        """Yield folder and name of so many tasks that are not done; each workspace has ten."""
        needed = -(-number // TASKS)
        folders = [self.workspace().open(1).folder for _ in range(needed)]
        return ((folder, str(task)) for folder in folders for task in range(1, TASKS + 1))


def jq(folder: str, *, may_build: bool) -> tuple[str, str] | None:
    """Return jq and its version: 1.7 or newer from the path, else built, else what is there."""
    found = shutil.which("jq")
    version = _version_of(found) if found else ""
    if found and _numbers(version) >= (1, 7):
        return found, version
    kept = os.path.join(sys.prefix, "bench-jq")
    if not os.path.exists(kept) and may_build:
        try:
            _build_jq(os.path.join(folder, "jq"), kept)
        except (OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
            print(f"  jq could not be built ({error}); an older one is used, if there is one")
    if os.path.exists(kept):
        return kept, f"{_version_of(kept)}, built from its sources with -O2"
    return (found, f"{version}, older than the budget asks for") if found else None


def _build_jq(folder: str, target: str) -> None:
    """Build the command alone; its sources come with the package of the same name."""
    os.makedirs(folder)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "download", "-q", "--no-deps", "--no-binary", "jq", "-d", folder, "jq==1.13.0"])
    for pattern in ("jq-*.tar.gz", "jq-*/deps/jq-*.tar.gz"):
        with tarfile.open(glob(os.path.join(folder, pattern))[0]) as sources:
            sources.extractall(os.path.join(folder, "built" if "deps" in pattern else ""))
    (inner,) = glob(os.path.join(folder, "built", "jq-*"))
    options = ["--disable-maintainer-mode", "--disable-docs", "--with-oniguruma=no"]
    _run(["./configure", *options, "--disable-shared", "CFLAGS=-O2"], inner)
    _run(["make", f"-j{os.cpu_count() or 1}"], inner)
    shutil.copy2(os.path.join(inner, "jq"), target)


def _copy_package(name: str, target: str) -> None:
    """Copy an installed package: the bench must not need a registry."""
    for file in distribution(name).files or ():
        if file.suffix != ".pyc" and ".." not in file.parts:
            own = os.path.join(target, file)
            os.makedirs(os.path.dirname(own), exist_ok=True)
            shutil.copyfile(file.locate(), own)


def _version_of(jq_path: str) -> str:
    found = subprocess.run([jq_path, "--version"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def _numbers(version: str) -> tuple[int, ...]:
    plain = version.removeprefix("jq-").split("-")[0].split(".")
    return tuple(int(part) for part in plain if part.isdigit())


def _run(argv: list[str], folder: str | None = None) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout[-2_000:] + done.stderr[-2_000:])
        done.check_returncode()

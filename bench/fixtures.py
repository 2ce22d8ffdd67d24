"""What is measured, and what with: prepared workspaces, a fresh installation, jq.

Everything stands in one temporary folder. Set-up goes through the library like any other caller,
but without waiting for the disk: only what is measured is synced.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from glob import glob
from itertools import count, cycle

from holdfast import Keeper
from holdfast.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TASKS = 10
AT_ONCE = 50
REASON = "review"


class Unsynced(Disk):
    """A disk that waits for nothing, for set-up alone."""

    def sync(self, fd: int) -> None:
        """Nothing that is set up has to outlive a power cut."""

    def sync_folder(self, path: str) -> None:
        """The same for names."""


class Workspace:
    """A git repository with workflows in it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.ids: list[str] = []
        os.makedirs(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        self.setup = Keeper(folder, disk=Unsynced())

    def keeper(self) -> Keeper:
        """A caller whose changes are durable."""
        return Keeper(self.folder)

    def open(self, number: int, tasks: int = TASKS) -> Workspace:
        """Starts so many workflows more."""
        texts = [f"write the part number {task} of the feature" for task in range(1, tasks + 1)]
        for _ in range(number):
            subject = f"features/{len(self.ids):05}.md"
            self.ids.append(self.setup.start("dev", subject, tasks=texts).state["id"])
        return self

    def bind(self, session: str) -> None:
        """Makes the first workflow a session's own."""
        Keeper(self.folder, session=session, disk=Unsynced()).resume(workflow=self.ids[0])

    def fill(self, events: int) -> Workspace:
        """Goes on with the first workflow until the ledger has so many events.

        Below the keeper, because many commits of one event each would take minutes.
        """
        state = self.setup.show(workflow=self.ids[0]).state
        last = state["tasks"][-1]
        drafts = [
            {"type": "task_started", "data": {"task": last["id"]}},
            {"type": "task_blocked", "data": {"task": last["id"], "reason": REASON}},
        ]
        turns = cycle(reversed(drafts) if last["status"] == "in_progress" else drafts)
        engine, caller = self.setup._engine, self.setup._caller  # noqa: SLF001 - see above
        with caller.locked():
            while (missing := events - engine.ledger.head_seq) > 0:
                wanted = [next(turns) for _ in range(min(missing, AT_ONCE))]
                state, _ = engine.commit(state["id"], state, wanted)
                engine.close_full_segment()
        return self


def turns_of(keeper: Keeper, workflow: str) -> Iterator[list[str]]:
    """Commands that can follow each other for ever: the last task is started, blocked, started."""
    task = keeper.show(workflow=workflow).state["tasks"][-1]
    number = str(task["id"])
    start, block = ["task", "start", number], ["task", "block", number, "--reason", REASON]
    return cycle((block, start) if task["status"] == "in_progress" else (start, block))


def swinging(keeper: Keeper, workflow: str) -> Callable[[], None]:
    """The same as calls of the library."""
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
        """An environment with nothing but Holdfast in it, as a user would have it."""
        wheels, place = os.path.join(self.folder, "wheels"), os.path.join(self.folder, "env")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        quietly = ["-q", "--no-deps", "--no-index"]
        _run([*pip, "wheel", *quietly, "--no-build-isolation", "-w", wheels, ROOT])
        _run([sys.executable, "-m", "venv", "--without-pip", place])
        self.python = os.path.join(place, "bin", "python")
        _run([*pip, "--python", self.python, "install", *quietly, *glob(f"{wheels}/*.whl")])
        self.script = os.path.join(place, "bin", "holdfast")
        with open(self.script) as script:
            imports = "imports re" if "import re" in script.read() else "does not import re"
        version = subprocess.run([*pip, "--version"], capture_output=True, text=True, check=True)
        self.made_by = f"pip {version.stdout.split()[1]} made the script, which {imports}"

    @property
    def pass_(self) -> list[str]:
        """What everything is compared with."""
        return [self.python, "-I", "-c", "pass"]

    @property
    def module(self) -> list[str]:
        return [self.python, "-m", "holdfast"]

    @property
    def best(self) -> list[str]:
        """The console script, or the module where there is none."""
        return [self.script] if self.script else self.module

    def workspace(self) -> Workspace:
        return Workspace(os.path.join(self.folder, f"workspace-{next(self._numbers)}"))

    def tasks(self, number: int) -> Iterator[tuple[str, str]]:
        """Folder and name of so many tasks that are not done; each workspace has ten."""
        needed = -(-number // TASKS)
        folders = [self.workspace().open(1).folder for _ in range(needed)]
        return ((folder, str(task)) for folder in folders for task in range(1, TASKS + 1))


def jq(folder: str, *, may_build: bool) -> tuple[str, str] | None:
    """The tool and its version: 1.7 or newer from the path, else built, else what is there."""
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
    """The sources come with the package of the same name; only its command is built."""
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

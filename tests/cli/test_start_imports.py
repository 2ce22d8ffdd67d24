"""What a common command loads. Every import is paid at every start, so the list is pinned here."""

import os
import subprocess
import sys

import pytest

from support.git_template import make_repository
from support.paths import SOURCE

PROGRAM = """\
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
from holdfast.cli.main import main
code = main(sys.argv[2:])
print(*sorted(set(sys.modules) - before), sep="\\n", file=sys.stderr)
raise SystemExit(code)
"""

HEAVY = (
    "argparse",
    "contextlib",
    "dataclasses",
    "datetime",
    "enum",
    "hashlib",
    "importlib",
    "json",
    "pathlib",
    "random",
    "re",
    "shutil",
    "signal",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "traceback",
    "typing",
    "unicodedata",
    "uuid",
    "warnings",
)

PACKAGES = {
    "holdfast": (
        *("adopt", "answers", "cli", "core", "errors", "formats", "keeper", "storage", "system"),
        "workspace",
    ),
    "holdfast.adopt": ("findings",),
    "holdfast.cli": ("answer", "commands", "main", "parser", "screen"),
    "holdfast.cli.commands": ("progress",),
    "holdfast.core": (
        *("diff", "json_text", "next_step", "record_formats", "refusal", "selection", "time"),
        *("visible", "workflow"),
    ),
    "holdfast.core.workflow": (
        *("corrections", "edits", "evidence", "lifecycle", "needs", "pool", "questions", "steps"),
        "tasks",
    ),
    "holdfast.formats": ("schema", "skill"),
    "holdfast.keeper": ("facts", "record_writer", "requests", "session", "store", "transaction"),
    "holdfast.storage": ("database", "ledger", "record_files", "skill_index"),
    "holdfast.system": ("disk", "kernel"),
    "holdfast.workspace": ("environment", "location"),
}
COMMON = ["holdfast", *(f"{pack}.{name}" for pack, names in PACKAGES.items() for name in names)]
FOR_GIT = [f"holdfast.evidence{name}" for name in ("", ".commits", ".git", ".tree")]
"""What a command loads that asks git for a commit."""
SQLITE = {
    *("_collections", "_functools", "_operator", "_sqlite3", "collections", "functools"),
    *("itertools", "keyword", "operator", "reprlib"),
}
"""``_sqlite3``, without the package around it, loads ``functools`` itself."""
STANDARD = {
    *SQLITE,
    *(
        "__future__",
        "_blake2",
        "_collections_abc",
        "_ctypes",
        "_datetime",
        "_json",
        "_md5",
        "_stat",
        "errno",
    ),
    *("fcntl", "gc", "genericpath", "os", "os.path", "posixpath", "stat", "types"),
}
"""``_ctypes``, without the package around it, is for the one call that exchanges two files."""


@pytest.fixture
def repository(tmp_path):
    make_repository(tmp_path)
    loaded(tmp_path, "start", "dev", "feature.md", *[f"--task={number}" for number in "123"])
    return tmp_path


def loaded(folder, *words):
    """The modules that a command loads, in an interpreter that has loaded nothing by itself."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, SOURCE, *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stderr.split()


def ours_of(modules):
    return [name for name in modules if name.partition(".")[0] == "holdfast"]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_started_task_loads_exactly_these_modules(repository, more):
    modules = loaded(repository, "task", "start", "1", *more)
    assert ours_of(modules) == sorted(COMMON)
    assert set(modules) - set(ours_of(modules)) <= STANDARD


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_finished_task_loads_exactly_these_modules(repository, more):
    modules = loaded(repository, "task", "done", "1", *more)
    assert ours_of(modules) == sorted(COMMON)


def test_a_task_that_was_started_asks_git_what_was_committed_since(repository):
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    commit = ["git", *who, "commit", "-q", "--allow-empty", "-m", "begin"]
    subprocess.run(commit, cwd=repository, check=True)
    loaded(repository, "remind", "x")  # It reads git's new index.
    named = loaded(repository, "task", "done", "2", "--commit", "HEAD")
    assert ours_of(named) == sorted(COMMON)
    loaded(repository, "task", "start", "1")
    modules = loaded(repository, "task", "done", "1")
    assert ours_of(modules) == sorted([*COMMON, *FOR_GIT])


def test_a_finished_task_outside_git_loads_exactly_these_modules(tmp_path):
    loaded(tmp_path, "start", "dev", "feature.md", "--task", "one")
    modules = loaded(tmp_path, "task", "done", "1", "--commit", "4f5e6d7")
    assert ours_of(modules) == sorted(COMMON)
    assert set(modules) - set(ours_of(modules)) <= STANDARD


@pytest.mark.parametrize(
    "line",
    [
        "task start 1",
        "task block 1 --reason x",
        "task add four",
        "advance",
        "phase complete load_feature",
        "step read",
        "remind slowly",
        "set a=1",
        "status",
        "verify",
        "show",
        "show --json",
        "resume",
        "log",
        "abandon",
    ],
)
def test_no_common_command_loads_anything_heavy(repository, line):
    assert sorted(set(loaded(repository, *line.split())) & set(HEAVY)) == []


@pytest.mark.parametrize("line", ["loop iterate T1 --did some --remaining more", "loop next"])
def test_pages_of_a_loop_that_nobody_edited_need_no_parser(repository, line):
    loaded(repository, "loop", "new", "login")
    loaded(repository, "loop", "plan", "--unit", "T1: The model")
    loaded(repository, "loop", "iterate", "T1", "--did", "some", "--remaining", "more")
    heavy = {"markdown_it", "holdfast.loops.page_model", "typing", "dataclasses", "json"}
    assert heavy.isdisjoint(loaded(repository, *line.split()))


def test_nothing_of_the_checkers_own_is_ever_loaded(repository):
    """The shapes are for the type checker; at run time they would cost ``typing``."""
    modules = loaded(repository, "start", "planning", "a move", "--json")
    assert [
        name for name in modules if name.startswith("holdfast.") and name.endswith("types")
    ] == []

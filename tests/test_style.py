"""The style of the source as a test: sizes, leftovers, dead modules, who imports and who writes."""

import ast
import os
import re
import subprocess
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from holdfast.core.record_formats import FORMATS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
MAX_FUNCTION_LINES = 70

ROOMS = (
    ("cli",),
    ("mcp", "hooks", "web"),
    ("answers",),
    ("install",),
    ("hub", "loops", "initiatives"),
    ("keeper",),
    ("adopt",),
    ("layers", "evidence"),
    ("formats", "storage"),
    ("workspace",),
    ("system",),
    ("core",),
    ("errors",),
)
"""From top to bottom. A room imports what lies below it; those beside each other do not meet."""
FLOORS = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
FACES = ("__init__.py", "__main__.py")
"""The library's face and the program's: they stand above all rooms."""
FOR_TYPING = ("types",)
"""How the names of modules end that only the type checker needs."""

SQLITE = {
    "storage/database.py": "the ledger",
    "storage/quick_look.py": "the ledger, only to be read",
    "layers/graph/store.py": "a Memory server's graph",
    "storage/search_index.py": "the index that a search fills",
}
"""Who opens a database."""

MAY_WRITE = {
    "system/disk.py": "it is the one place that does",
    "system/kernel.py": "it waits for the disk's lock",
    "cli/demo.py": "it plays the user, the hand that edits and the writer that dies",
    **{
        name: f"SQLite writes the files of {what}; where, when and how is decided there alone"
        for name, what in SQLITE.items()
    },
}
MAY_READ = {
    "system/disk.py": "whole files of at most MAX_FILE_BYTES, or as many bytes as its caller says",
    "workspace/location.py": "as many bytes of a file, or names of a folder, as a constant says",
    "hooks/quick_check.py": "MAX_EVENT_BYTES of standard input",
    "mcp/stdio.py": "MAX_LINE_BYTES of standard input at a time",
    "evidence/run.py": "the output of a command, of which the beginning and the end are kept",
    "evidence/git.py": "a file in blocks, to count its lines",
    "hub/git_mirror.py": "what git prints, at most _MAX_OUTPUT_BYTES",
    "evidence/tree.py": "every file of the work tree in blocks, in a run of a gate",
    "keeper/start.py": "MAX_NAMES names below a folder that the caller named",
    "keeper/transfer.py": "a file that the caller named, in lines of at most _MAX_LINE_BYTES",
    "cli/watching/terminal.py": "_READ_BYTES of a terminal",
    "cli/demo.py": "files that the demonstration itself wrote",
    "cli/commands/completion.py": "a script that is part of the package",
    "hub/postgres.py": "a script of the package",
    "storage/database.py": "the kernel's list of mounts, a script of the package, a copy of ours",
    "layers/graph/stdio_client.py": "what a Memory server sends, at most _MAX_ANSWER_BYTES",
    **dict.fromkeys(
        ("system/kernel.py", "system/process_tree.py"),
        "files of the kernel about processes and locks",
    ),
}
"""Who reads files and folders itself, and what bounds that; all others call the first two."""
READERS = re.compile(
    r"(?:io\.)?open|(?:os|posix)\.(?:open|fdopen|p?readv?|listdir|scandir|f?walk|sendfile)"
    r"|.*\.(?:read_text|read_bytes|iterdir|r?glob)"
)
READING_MODULES = {"glob", "pathlib", "mmap", "linecache", "fileinput"}
OS_WRITERS = re.compile(
    "f?chmod|f?chown|fdatasync|fsync|f?truncate|link|makedirs|mkdir|mkfifo|mknod|remove|removedirs"
    "|renames?|replace|rmdir|symlink|unlink|utime"
)
READ_FLAGS = {"O_RDONLY", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"}
WRITING_MODULES = {"shutil", "tempfile", "fcntl", "sqlite3", "_sqlite3"}
PATH_WRITERS = {"write_text", "write_bytes", "touch"}

# Written in pieces, so that this file does not find itself.
LEFTOVERS = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b"
    r"|(?i:\b" + "for" + r" now\b|\bplace" + r"holder\b|\bnot" + r" implemented yet\b)"
)
ELSEWHERE = re.compile(
    r"(?<![\w.])/(?:home|Users|work|root|mnt|opt)/\w+"
    r"|\b(?:pypi\.(?:org|io)|pythonhosted\.org|registry\.npmjs|npmjs\.com|crates\.io)\b"
    r"|\bspecs? 00\d\b"
)


def python_files(*folders):
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if "__pycache__" not in path.parts)


MODULES = python_files("src")


def shown(path):
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path):
    return ast.parse(path.read_text("utf-8"))


def dotted(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {dotted(path): path for path in MODULES}


def part_of(name):
    """``formats`` of ``holdfast.formats.verb``."""
    return [*name.split("."), ""][1]


def named(text):
    """The modules that a text names, whole or by a prefix such as ``holdfast.cli.``."""
    if text.endswith("."):
        return [name for name in NAMES if name.startswith(text) and "holdfast." in text]
    return [text] if text in NAMES and "." in text else []


def imported(path):
    """The modules of ours that this one imports anywhere in it, and where."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] + "." if node.level else ""
            base = (base + (node.module or "")).rstrip(".")
            below = [f"{base}.{alias.name}" for alias in node.names]
            found = [name if name in NAMES else base for name in below]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = named(node.value)
        else:
            continue
        yield from ((name, node) for name in found if name.partition(".")[0] == "holdfast")


def tracked_files():
    """Every file that is or would be in the repository."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        run = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git repository")
    names = run.stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def text_of(path):
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", "replace")


def found_in(pattern, paths):
    return [
        f"{shown(path)}:{number}: {match.group()}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def statements_in(node):
    """Yield the statements below a node; a walk through all expressions would take a second."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, name, ()):
            yield inner
            yield from statements_in(inner)


# Sizes and leftovers


def test_every_function_fits_on_one_screen():
    long = [
        f"{shown(path)}: {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path in python_files("src", "tests", "tools", "bench")
        for node in statements_in(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno >= MAX_FUNCTION_LINES
    ]
    assert not long


def test_every_module_opens_with_a_paragraph_on_its_place():
    assert not [shown(path) for path in MODULES if not ast.get_docstring(tree_of(path))]


def test_nothing_was_left_for_later():
    assert not found_in(LEFTOVERS, tracked_files())


def test_no_file_names_a_place_that_only_its_author_has():
    assert not found_in(ELSEWHERE, tracked_files())


# Who imports whom


def against_the_law():
    """Every import that does not go down, eager, late or for typing: importer -> imported."""
    for path in MODULES:
        mine = part_of(dotted(path))
        for name, node in imported(path):
            theirs = part_of(name)
            is_up = mine != theirs and FLOORS.get(theirs, len(ROOMS)) <= FLOORS.get(mine, -1)
            if is_up or (mine in FLOORS and has_the_face(node)):
                yield f"{below(dotted(path))} -> {below(name)}"


def has_the_face(node):
    """Whether the library's face is asked for more than its version: it leads to every room."""
    taken = [alias.name for alias in getattr(node, "names", ())]
    from_it = isinstance(node, ast.ImportFrom) and node.module == "holdfast"
    named = [name for name in taken if f"holdfast.{name}" not in NAMES and name != "__version__"]
    return "holdfast" in taken or (from_it and bool(named))


def below(name):
    return name.removeprefix("holdfast.")


def test_imports_go_down_from_room_to_room():
    assert sorted(against_the_law()) == []


def test_every_module_is_in_a_room():
    inside = SOURCE / "holdfast"
    loose = {path.name for path in inside.glob("*.py")}
    assert loose == {*FACES, "errors.py"}
    assert {part_of(dotted(path)) for path in MODULES} - {"", "__main__"} == set(FLOORS)


def test_shapes_are_imported_for_typing_alone():
    assert not [
        f"{shown(path)}:{node.lineno}: {name}"
        for path in MODULES
        if not path.stem.endswith(FOR_TYPING)
        for name, node in imported(path)
        if name.endswith(FOR_TYPING)
        and node not in typing_alone(path)
        and not isinstance(node, ast.Constant)
    ]


@cache
def typing_alone(path):
    """The nodes of a module that only the type checker sees."""
    return {
        inner
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }


def test_every_record_format_is_one_module_and_one_line():
    folder = SOURCE / "holdfast" / "formats"
    modules = {
        path.stem
        for path in folder.glob("*.py")
        if {"parse", "render"} <= {getattr(node, "name", "") for node in tree_of(path).body}
    }
    assert modules - {"__init__", "initiatives"} == set(FORMATS)


def test_only_the_modules_for_it_open_a_database():
    opening = re.compile(r"\b_?sqlite3\.connect\(")
    found = {line.partition(":")[0] for line in found_in(opening, MODULES)}
    assert found == {f"src/holdfast/{name}" for name in SQLITE}
    ways = re.compile(r"\bopen(?:_read)?\([^)]*(?:ledger\.db|\bLEDGER\b|\bNAME\b)")
    assert not found_in(ways, MODULES)


CLIENTS_RUN = "holdfast.hooks.entry"
"""Named in a client's settings, by its path."""


def test_every_module_is_reached_from_an_entry_point():
    script = (ROOT / "scripts" / "holdfast").read_text("utf-8")
    entries = {"holdfast", "holdfast.__main__", *re.findall(r"holdfast(?:\.\w+)+", script)}
    entries.add(CLIENTS_RUN)
    reached, waiting = set(), list(entries)
    while waiting:
        name = waiting.pop()
        if name in NAMES and name not in reached:
            reached.add(name)
            waiting += [name.rpartition(".")[0], *(n for n, _ in imported(NAMES[name]))]
    assert not sorted(set(NAMES) - reached)


DECLARING = (
    "command", "on_workflow", "on_loop", "on_initiative", "on_log", "_tool", "_action",
    "decides", "opens", "evolves",
)  # fmt: skip


def is_declared(node):
    """Return True if a decorator enters it in a table: commands, tools, decisions, events."""
    calls = [each.func for each in node.decorator_list if isinstance(each, ast.Call)]
    return any(isinstance(each, ast.Name) and each.id in DECLARING for each in calls)


def test_every_function_and_class_is_named_somewhere_else():
    """A name that stands only where it is defined is dead, unless a decorator declares it."""
    own = [*MODULES, ROOT / "scripts" / "holdfast", *python_files("tools", "tests")]
    words = Counter(word for path in own for word in re.findall(r"\w+", text_of(path)))
    dead = [
        f"{shown(path)}:{node.lineno}: {node.name}"
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not is_declared(node)
        and words[node.name] < 2
    ]
    assert not dead


# Who writes


def writing(node):
    """What a call or an import writes with, or ``None``."""
    if isinstance(node, ast.Import):
        return next((a.name for a in node.names if a.name in WRITING_MODULES), None)
    if isinstance(node, ast.ImportFrom):
        if node.module in WRITING_MODULES:
            return node.module
        taken = [alias.name for alias in node.names] if node.module in ("os", "posix") else []
        return next((name for name in taken if OS_WRITERS.fullmatch(name) or name == "open"), None)
    return writing_call(node) if isinstance(node, ast.Call) else None


def writing_call(node):
    name = ast.unparse(node.func)
    module, _, method = name.rpartition(".")
    if name in ("open", "io.open", "os.fdopen", "posix.fdopen"):
        mode = next(
            (k.value for k in node.keywords if k.arg == "mode"), (node.args + [None] * 2)[1]
        )
        reads = mode is None or (
            isinstance(mode, ast.Constant) and not set(mode.value) & set("wax+")
        )
        return None if reads else ast.unparse(node)
    if name in ("os.open", "posix.open"):
        where, flags = [*(ast.unparse(argument) for argument in node.args), "?"][:2]
        if where == "os.devnull":
            return None
        return None if set(re.findall(r"\w+", flags)) - {"os", "posix"} <= READ_FLAGS else name
    if module in ("os", "posix") and OS_WRITERS.fullmatch(method):
        return name
    return name if method in PATH_WRITERS else None


def test_only_the_disk_writes():
    assert not [
        f"{shown(path)}:{node.lineno}: {writing(node)}"
        for path in MODULES
        if path.relative_to(SOURCE / "holdfast").as_posix() not in MAY_WRITE
        for node in ast.walk(tree_of(path))
        if writing(node) and node not in typing_alone(path)
    ]


@pytest.mark.parametrize(
    "code",
    [
        "open(p, 'w')",
        "open(p, mode='ab')",
        "open(p, mode)",
        "os.open(p, os.O_RDONLY | os.O_CREAT)",
        "os.open(p, FLAGS)",
        "os.replace(a, b)",
        "os.fsync(fd)",
        "from os import unlink",
        "import tempfile",
        "from shutil import rmtree",
        "import fcntl",
        "import sqlite3",
        "path.write_text('x')",
    ],
)
def test_a_write_is_recognised(code):
    assert any(writing(node) for node in ast.walk(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "open(p)",
        "open(p, 'rb')",
        "os.open(p, os.O_RDONLY | os.O_CLOEXEC)",
        "text.replace('a', 'b')",
        "os.open(os.devnull, os.O_WRONLY)",
    ],
)
def test_a_read_is_no_write(code):
    assert not any(writing(node) for node in ast.walk(ast.parse(code)))


# Who reads


def reading(node):
    """What a call or an import reads with, or ``None``."""
    if isinstance(node, ast.Import):
        return next((a.name for a in node.names if a.name in READING_MODULES), None)
    if isinstance(node, ast.ImportFrom):
        if node.module in READING_MODULES:
            return node.module
        taken = [a.name for a in node.names] if node.module in ("os", "posix", "io") else []
        return next((name for name in taken if READERS.fullmatch(f"os.{name}")), None)
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return name if READERS.fullmatch(name) else None


def test_a_file_or_folder_is_read_where_its_size_is_bounded():
    readers = {
        path.relative_to(SOURCE / "holdfast").as_posix(): f"{shown(path)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if reading(node) and node not in typing_alone(path)
    }
    assert not {where for name, where in readers.items() if name not in MAY_READ}
    assert not MAY_READ.keys() - readers.keys(), "these read nothing any more"


@pytest.mark.parametrize(
    "code",
    [
        "open(p)", "open(fd, 'rb')", "os.open(p, os.O_RDONLY)", "os.read(0, 9)", "os.listdir(p)",
        "os.scandir(p)", "os.walk(p)", "Path(p).read_text()", "folder.iterdir()", "import glob",
        "from os import listdir", "from pathlib import Path", "os.pread(fd, 9, 0)",
    ],
)  # fmt: skip
def test_a_read_is_recognised(code):
    assert any(reading(node) for node in ast.walk(ast.parse(code)))


# What the documents and the settings say


def requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"].get("optional-dependencies", {}).values()
    lines = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    lines += [line for extra in extras for line in extra]
    for path in sorted(ROOT.glob("requirements*.txt")):
        lines += path.read_text("utf-8").splitlines()
    matches = (re.match(r"[A-Za-z0-9][\w.-]*", line) for line in lines)
    return sorted({match.group() for match in matches if match})


def test_every_dependency_has_its_reason():
    reasons = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
    assert not [name for name in requirements() if f"`{name}`" not in reasons]


def test_requirements_are_pinned_by_name_and_version():
    lines = [
        line
        for path in ROOT.glob("requirements*.txt")
        for line in path.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_version_is_the_same_wherever_it_is_said():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    init = SOURCE / "holdfast" / "__init__.py"
    said = re.findall(
        r'^__version__ = "(.+)"', init.read_text("utf-8") if init.exists() else "", re.MULTILINE
    )
    assert said in ([], [version])


def test_every_lint_rule_left_out_has_its_reason():
    section = (ROOT / "pyproject.toml").read_text("utf-8").partition("[tool.ruff.lint]")[2]
    rules = [line for line in section.splitlines() if re.match(r'    "[A-Z]+\d*",', line)]
    assert rules
    assert not [line for line in rules if "#" not in line]


def test_ci_runs_what_a_person_runs():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text("utf-8")


def test_no_two_types_share_a_name():
    homes = {}
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            # A room's protocols describe types of rooms above it, under their names.
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(ast.unparse, node.bases):
                homes.setdefault(node.name, []).append(shown(path))
    assert {kind: names for kind, names in homes.items() if len(names) > 1} == {}

"""``gate run`` in a large work tree: how often it is read, and by how many processes of git."""

from __future__ import annotations

import os
import shutil
import subprocess

from measure import interleaved, middle, process, ratio
from results import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fixtures import Workshop
    from results import Missing
    from sizes import Sizes

READS = 2
"""The tree is read before the command, and after it."""
PER_READ = 1.5
MOST_PROCESSES = 9
_PER_FOLDER = 100
_IDENTITY = (
    *("-c", "user.name=bench", "-c", "user.email=bench@localhost"),
    # Else git goes on in the background, and writes while the folder is removed.
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)
_COUNTING = """\
#!/bin/sh
echo "$@" >>{log}
exec {git} "$@"
"""


def measure_trees(shop: Workshop, sizes: Sizes) -> list[Row | Missing]:
    """Measure a gate whose command does nothing against ``git status``."""
    work = shop.workspace().open(1)
    _fill_tree(work.folder, sizes.tree_files)
    git = str(shutil.which("git"))
    gate = [*shop.best, "gate", "run", "lint", "--", "test", "-d", "."]
    samples = {
        "git status": lambda: process([git, "status", "--porcelain"], work.folder, shop.env),
        "gate run": lambda: process(gate, work.folder, shop.env),
    }
    os.sync()
    interleaved(1, samples)
    times = interleaved(sizes.tree_rounds, samples)
    calls = _git_calls(shop, git, gate, work.folder)
    what = f"`gate run -- test -d .` with {sizes.tree_files:,} files"
    limit = READS * PER_READ
    return [
        Row(
            f"{what} / one `git status`", ratio(times, "gate run", "git status"), limit,
            detail=f"{READS} readings of the tree, each at most {PER_READ} x",
            medians_ms=middle(times),
        ),
        Row(
            f"{what}: processes of git", len(calls), MOST_PROCESSES, unit="",
            detail=", ".join(calls),
        ),
    ]  # fmt: skip


def _fill_tree(folder: str, files: int) -> None:
    for number in range(files):
        inner = os.path.join(folder, "src", f"part-{number // _PER_FOLDER:04}")
        if number % _PER_FOLDER == 0:
            os.makedirs(inner)
        with open(os.path.join(inner, f"file-{number:06}.txt"), "w") as file:
            file.write(f"the file number {number}\n")
    for words in (["add", "src"], ["commit", "-q", "-m", "Add files"]):
        subprocess.run(["git", *_IDENTITY, *words], cwd=folder, check=True)


def _git_calls(shop: Workshop, git: str, argv: list[str], folder: str) -> list[str]:
    """Return the subcommands of git that a command starts, counted by a git of our own."""
    own = os.path.join(shop.folder, "counting")
    log = os.path.join(own, "log")
    os.makedirs(own)
    script = os.path.join(own, "git")
    with open(script, "w") as file:
        file.write(_COUNTING.format(log=log, git=git))
    os.chmod(script, 0o755)
    process(argv, folder, {**shop.env, "PATH": f"{own}{os.pathsep}{shop.env['PATH']}"})
    with open(log) as lines:
        return [_subcommand(line.split()) for line in lines]


def _subcommand(words: list[str]) -> str:
    """Return the first word that is neither an option nor the value of ``-c`` or ``-C``."""
    remaining = iter(words)
    for word in remaining:
        if word in ("-c", "-C"):
            next(remaining)
        elif not word.startswith("-"):
            return word
    return " ".join(words)

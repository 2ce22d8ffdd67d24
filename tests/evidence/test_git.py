"""git is asked for no more than is kept, and without any program that a repository names."""

import os
import subprocess

import pytest

from holdfast import Keeper
from holdfast.evidence import commits, git, tree
from holdfast.workspace.location import find
from support.git_template import make_repository, run_git

PROGRAMS = [
    "core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand",
    "core.gitProxy", "core.alternateRefsCommand", "pager.log", "pager.status", "pager.diff",
    "diff.external", "diff.x.command", "diff.x.textconv", "merge.x.driver", "gpg.program",
    "gpg.ssh.program", "gpg.x509.program", "credential.helper", "uploadpack.packObjectsHook",
    "interactive.diffFilter", "sequence.editor", "trailer.x.command", "remote.origin.uploadpack",
    "gc.recentObjectsHook",
]  # fmt: skip
SWITCHES = {
    "log.showSignature": "true", "status.submoduleSummary": "true", "diff.submodule": "log",
    "core.untrackedCache": "true", "submodule.recurse": "true", "diff.ignoreSubmodules": "none",
    "gpg.format": "openpgp",
}  # fmt: skip


def set_traps(root, trap):
    """Set all programs. Filters are called like the folder: git hands settings to submodules."""
    drivers = [f"filter.{os.path.basename(root)}.{use}" for use in ("clean", "smudge", "process")]
    for key in (*PROGRAMS, *drivers):
        run_git(root, "config", key, trap)
    for key, text in SWITCHES.items():
        run_git(root, "config", key, text)
    hooks = os.path.join(run_git(root, "rev-parse", "--absolute-git-dir").stdout.strip(), "hooks")
    os.makedirs(hooks, exist_ok=True)
    for name in ("post-index-change", "post-checkout", "pre-auto-gc", "reference-transaction"):
        os.symlink(trap, os.path.join(hooks, name))


def make_signed_commit(root):
    """Make a commit with a signature, which git would have checked by a program."""
    run_git(root, "commit", "-q", "--allow-empty", "-m", "signed")
    head, _, body = run_git(root, "cat-file", "commit", "HEAD").stdout.partition("\n\n")
    armour = "-----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----\n"
    done = subprocess.run(
        ["git", "-C", root, "hash-object", "-t", "commit", "-w", "--stdin"],
        input=f"{head}\ngpgsig {armour}\n{body}".encode(), capture_output=True, check=True,
    )  # fmt: skip
    run_git(root, "update-ref", "HEAD", done.stdout.decode().strip())


@pytest.fixture
def trapped(tmp_path):
    """Return a repository with a submodule, both full of programs, and the file they would make."""
    trap, ran = tmp_path / "trap", tmp_path / "ran"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\ncat\n")
    trap.chmod(0o755)
    root = str(tmp_path / "r")
    make_repository(root, committed=True)
    make_repository(f"{root}/sub", committed=True)
    for folder in (f"{root}/sub", root):
        with open(f"{folder}/.gitattributes", "w", encoding="utf-8") as file:
            file.write(f"* filter={os.path.basename(folder)} diff=x merge=x\n")
        with open(f"{folder}/a", "w", encoding="utf-8") as file:
            file.write("a\n")
        if folder == root:
            with open(f"{root}/.gitmodules", "w", encoding="utf-8") as file:
                file.write('[submodule "sub"]\n path = sub\n url = ./sub\n')
        run_git(folder, "add", ".")
        run_git(folder, "commit", "-q", "-m", "a")
    Keeper(root).start("dev", "x", tasks=["one"])
    Keeper(root).start_task(1)
    make_signed_commit(root)
    for folder in (f"{root}/sub", root):
        set_traps(folder, str(trap))
        os.utime(f"{folder}/a", (1, 1))
    return root, ran


def test_no_program_that_a_repository_or_its_submodule_names_is_run(trapped):
    root, ran = trapped
    workspace = find(root)
    keeper = Keeper(root)
    tree.read(workspace)
    git.lines_added(root, None, "2020-01-01T00:00:00Z")
    git.is_descendant(root, git.head(root), git.head(root))
    git.pushed_to(root, "main")
    commits.staged_files(workspace)
    commits.changed_files(workspace)
    commits.resolve(workspace, "HEAD", "test")
    keeper.complete_task(1, force=True, reason="x")
    assert git.subject(root, "HEAD") == "signed"
    assert not ran.exists(), ran.read_text()


@pytest.mark.parametrize("subject", ["Add  it \u00e9 (#1)", "", "\u4e2d" * 20])
def test_the_subject_of_a_commit_is_what_was_written(subject, tmp_path):
    root = str(tmp_path / "r")
    make_repository(root, committed=True)
    words = ["commit", "-q", "--allow-empty", "--allow-empty-message", "-m", subject]
    run_git(root, *words)
    assert git.subject(root, "HEAD") == subject


def test_the_subject_of_a_commit_is_cut_off_where_it_is_endless(tmp_path):
    root = str(tmp_path / "r")
    make_repository(root, committed=True)
    (tmp_path / "message").write_text("a" * 1_000_000)
    run_git(root, "commit", "-q", "--allow-empty", "-F", str(tmp_path / "message"))
    assert git.subject(root, "HEAD") == "a" * 998 + ".."

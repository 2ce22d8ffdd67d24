"""Repositories that are copied from one that git made, because a copy costs a tenth."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile

ADA = {
    **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
README = "A project.\n"


def make_repository(root, *, committed=False):
    """Make a repository on ``main`` in a folder, perhaps with one commit: a ``README.md``."""
    shutil.copytree(_template(committed=committed), root, dirs_exist_ok=True)


@functools.cache
def _template(*, committed):
    folder = tempfile.mkdtemp(prefix="holdfast-template-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run_git(folder, "init", "-q", "-b", "main")
    # Examples of hooks are two thirds of the files.
    shutil.rmtree(os.path.join(folder, ".git", "hooks"), ignore_errors=True)
    if committed:
        with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
            file.write(README)
        run_git(folder, "add", "README.md")
        run_git(folder, "commit", "-q", "-m", "begin")
    return folder


def run_git(folder, *words, check=True):
    """Run git as Ada, who has no settings of her own; return how it ended."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(folder), **ADA}
    command = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, check=check, capture_output=True, text=True
    )

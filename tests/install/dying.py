"""Runs a function that dies by SIGKILL before its n-th step on the disk, for n = 0, 1, 2 and on.

A program of its own, because it forks: ``python dying.py FOLDER SCENARIO`` prints how many died.
"""

import os
import shutil
import signal
import sys

from git_template import make_repository
from holdfast import install
from holdfast.install import client_files
from holdfast.system.disk import Disk
from settings_samples import FILES
from workshop import FULL

STEPS = (
    *("make_folder", "create", "write", "sync", "sync_folder", "exchange", "remove", "link"),
    *("move", "extend", "copy_permissions", "lock", "remove_folder"),
)
TEAM = ".claude/settings.json"
ALL_SKILLS = client_files.read_skills


def dies_after(steps):
    """From now on this process dies before its step of this number."""
    left = [steps]

    def dying(name):
        step = getattr(Disk, name)

        def call(self, *args, **options):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(self, *args, **options)

        return call

    for name in STEPS:
        setattr(Disk, name, dying(name))


def killed(function, steps):
    """Whether it died before it was done."""
    child = os.fork()
    if child == 0:
        dies_after(steps)
        function()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed in another way"
    return os.WIFSIGNALED(status)


def content(root):
    try:
        with open(os.path.join(root, TEAM), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def strays(root):
    """What should not be left beside the settings."""
    folder = os.path.join(root, ".claude")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [name for name in names if name not in ("settings.json", "holdfast")]


def project(folder, text):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    make_repository(folder)
    if text is not None:
        os.mkdir(os.path.join(folder, ".claude"))
        with open(os.path.join(folder, TEAM), "wb") as file:
            file.write(text)


def dying_init(root, text):
    """Dies in init. Uninstall, and init and uninstall, then lead back to the beginning."""
    project(root, text)
    install.init(root)
    new = content(root)
    died = 0
    while True:
        project(root, text)
        if not killed(lambda: install.init(root), died):
            return died
        died += 1
        assert content(root) in (text, new)
        if died % 2:
            install.init(root)
            assert content(root) == new
        install.uninstall(root)
        assert content(root) == text
        assert strays(root) == []


def dying_again(root, text):
    """Dies in a second init, with other hooks."""
    project(root, text)
    install.init(root)
    first = content(root)
    install.init(root, enforce=True)
    second = content(root)
    died = 0
    while True:
        project(root, text)
        install.init(root)
        if not killed(lambda: install.init(root, enforce=True), died):
            return died
        died += 1
        assert content(root) in (first, second)
        install.uninstall(root)
        assert content(root) == text
        assert strays(root) == []


def dying_uninstall(root, text):
    """Dies in uninstall. Another one goes on."""
    project(root, text)
    install.init(root)
    new = content(root)
    died = 0
    while True:
        project(root, text)
        install.init(root)
        if not killed(lambda: install.uninstall(root), died):
            return died
        died += 1
        assert content(root) in (text, new)
        install.uninstall(root)
        assert content(root) == text
        assert strays(root) == []


def dying_with_codex(root, text):
    """Dies in init or in uninstall of Codex. Its configuration is whole, and can be mounted."""
    client_files.read_skills = lambda _arguments: {}
    config = os.path.join(os.environ["HOME"], ".codex", "config.toml")
    folder = os.path.join(os.path.realpath(root), ".git", "holdfast")

    def prepare(*, is_done):
        project(root, None)
        shutil.rmtree(os.path.dirname(config), ignore_errors=True)
        if text is not None:
            os.mkdir(os.path.dirname(config))
            with open(config, "wb") as file:
                file.write(text)
        if is_done:
            install.init(root, agent="codex")

    def found():
        if not os.path.exists(config):
            return None
        with open(config, "rb") as file:
            return file.read()

    prepare(is_done=True)
    new = found()
    died = 0
    for is_done, work in (
        (False, lambda: install.init(root, agent="codex")),
        (True, lambda: install.uninstall(root)),
    ):
        step = 0
        prepare(is_done=is_done)
        while killed(work, step):
            step += 1
            assert found() in (text, new)
            assert found() == text or os.path.isdir(folder)
            install.uninstall(root)
            assert found() == text
            prepare(is_done=is_done)
        died += step
    return died


def two_skills(arguments):
    """Return two of the skills: every one is written and removed by the same steps."""
    return dict(sorted(ALL_SKILLS(arguments).items())[:2])


if __name__ == "__main__":
    if not FULL:
        client_files.read_skills = two_skills
    place, scenario, with_file = sys.argv[1:]
    # Taking the hooks out again leaves other white space in this one: only the journal restores it.
    name = "an empty object over lines" if scenario == "dying_again" else "tabs"
    before = FILES[name].encode() if with_file == "with" else None
    if before is not None and scenario == "dying_with_codex":
        before = b"# mine\n[sandbox_workspace_write]\nwritable_roots = ['/a']\n"
    print(globals()[scenario](place, before))

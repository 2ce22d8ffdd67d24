"""Ways to break promise 13, each noticed in the repository of a stranger; rows of ``mutations``."""

import json
import os

from promises.mutating import Mutation, answer

_STRANGER = (
    "tests/promises/test_p13_repositories.py"
    "::test_a_stranger_runs_nothing_reads_nothing_and_writes_nothing_elsewhere"
)


def _trusting_itself(original):
    def load(root):
        from holdfast.workspace import settings

        settings._RULES = settings._RULES_OF_PERSON
        loaded = original(root)
        path = os.path.join(root, settings.TEAM)
        team = settings.parse_toml(settings.read_file(path, settings.TEAM, root))
        loaded.trusted_folders = team.get("trust", {}).get("folders", [])
        return loaded

    return load


def _with_hooks(settings):
    return tuple(setting for setting in settings if not setting.startswith("core.hooksPath"))


def _believed(_original):
    """Take a folder that looks like a repository for the worktree that it says it is."""

    def in_git(root):
        from holdfast.workspace.location import Workspace, _git_folder, _read

        git = os.path.join(root, ".git")
        git = git if os.path.isdir(git) else _git_folder(git)
        shared = _read(os.path.join(git, "commondir"))
        common = os.path.normpath(os.path.join(git, shared)) if shared else git
        return Workspace(root, git, common)

    return in_git


def _following_links(disk):
    disk.read_own = disk.read
    return disk


def _waiting(_original):
    def read(path, _root=None):
        if not os.path.exists(path):
            return {}
        with open(path, "rb") as file:
            return json.loads(file.read() or b"{}")

    return read


def _row(name, target, broken, repository):
    return Mutation(13, name, target, broken, f"{_STRANGER}[{repository}]")


STRANGERS = [
    _row(
        "run gates untrusted", "holdfast.workspace.trust:is_approved", answer(True),
        "recipes_with_gates",
    ),
    _row(
        "let a repository trust itself", "holdfast.workspace.settings:load", _trusting_itself,
        "settings_that_trust",
    ),
    _row(
        "start a server untrusted", "holdfast.workspace.trust:check", answer(),
        "a_graph_that_a_server_keeps",
    ),
    _row(
        "let git run a repository's filters", "holdfast.evidence.git:Repository._own_filters",
        answer([]), "git_filters_files",
    ),
    _row(
        "let git run a repository's hooks", "holdfast.evidence.git:_QUIET", _with_hooks,
        "git_has_hooks",
    ),
    _row(
        "believe a folder that its ledger lies elsewhere", "holdfast.workspace.location:_in_git",
        _believed, "a_bare_repository_of_somebody_else",
    ),
    _row(
        "tell the last line of whatever the log is", "holdfast.system.disk:Disk", _following_links,
        "locks_and_logs_that_are_links",
    ),
    _row(
        "keep the memory where a clone says", "holdfast.layers.memory:_is_tracked",
        answer(False), "a_memory_by_local_settings",
    ),
    _row(
        "wait for a pipe in a client's settings", "holdfast.layers.memory:_read_settings", _waiting,
        "pipes_and_devices",
    ),
]  # fmt: skip

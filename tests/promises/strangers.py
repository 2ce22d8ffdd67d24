"""Ways to break promise 13, each noticed in the repository of a stranger; rows of ``mutations``."""

import json
import os

from promises.mutating import Mutation, answer, value

_STRANGER = (
    "tests/promises/test_p13_repositories.py"
    "::test_a_stranger_runs_nothing_reads_nothing_and_writes_nothing_elsewhere"
)
_PROGRAMS = (
    "tests/evidence/test_git.py::test_no_program_that_a_repository_or_its_submodule_names_is_run"
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

    def in_git(root, _stat):
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


def _by_the_umask(_original):
    """Leave what is made to the umask, and to whoever made it."""
    return lambda file, _path, _mode: os.stat(file)


def _belonging_to_root(original):
    def settle(file, path, mode):
        return os.stat(file) if os.geteuid() == 0 else original(file, path, mode)

    return settle


def _wherever_it_is(_original):
    def person_folder(_root, *place):
        from holdfast.workspace.location import person_path

        return person_path(*place)

    return person_folder


def _with_approvals(_original):
    def as_imported(before, state):
        from holdfast.core.workflow.edits import with_claims

        return with_claims(before, state)

    return as_imported


def _anywhere_on_the_path(_original):
    return lambda name, _root=None: name


def _same_file(_original):
    """Compare ``.git`` files, which a link or a second name leads to from anywhere."""

    def check(git, root):
        from holdfast.workspace.location import _is_same_folder, _read

        named = os.path.join(git, _read(os.path.join(git, "gitdir")))
        assert _is_same_folder(named, os.path.join(root, ".git"))

    return check


def _below_this_worktree(_original):
    from holdfast.workspace.location import is_inside

    return is_inside


def _with_signatures(settings):
    return tuple(setting for setting in settings if not setting.startswith("log."))


def _in_submodules(options):
    return tuple(option for option in options if "submodules" not in option)


def _belief(name, target, broken, test):
    return Mutation(13, name, target, broken, f"tests/promises/test_p13_belief.py::test_{test}")


def _place(name, target, broken, test):
    return Mutation(13, name, target, broken, f"tests/workspace/test_git_layouts.py::test_{test}")


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
        "keep the memory where a clone says", "holdfast.layers.memory:is_inside",
        answer(True), "a_memory_by_local_settings",
    ),
    Mutation(
        13, "believe a ledger that lies in a clone",
        "holdfast.workspace.location:Workspace.has_foreign_ledger", answer(False),
        "tests/workspace/test_location.py"
        "::test_a_ledger_in_the_work_tree_of_a_clone_is_not_believed[plain]",
    ),
    _belief(
        "believe a ledger in an archive", "holdfast.keeper.foreign_ledger:set_aside", answer(),
        "a_ledger_in_an_archive_is_not_believed[git]",
    ),
    _belief(
        "believe any proof", "holdfast.workspace.location:is_own_ledger", answer(True),
        "a_proof_that_was_forged_is_not_believed[plain]",
    ),
    _belief(
        "trust a home in the repository", "holdfast.workspace.trust:person_folder",
        _wherever_it_is, "a_home_inside_the_repository_trusts_nothing[HOME]",
    ),
    _belief(
        "remember what a stranger learned", "holdfast.core.logs:Log._as_adopted",
        value(lambda _self, _state, adopted: adopted),
        "learnings_of_a_clone_do_not_reach_the_memory_by_themselves[plain]",
    ),
    _belief(
        "import approvals", "holdfast.keeper.transfer:as_imported", _with_approvals,
        "an_import_brings_no_approval_no_evidence_and_no_session[plain]",
    ),
    _belief(
        "write what git tracks", "holdfast.keeper.store:Store.tracked", answer([]),
        "files_of_ours_that_git_tracks_are_named_and_not_written[2]",
    ),
    _belief(
        "leave permissions to the umask", "holdfast.system.disk:_settle_new", _by_the_umask,
        "files_are_for_their_owner_alone_whatever_the_umask[0o777]",
    ),
    _belief(
        "lock the owner out", "holdfast.system.disk:_settle_new", _belonging_to_root,
        "root_does_not_lock_the_owner_out[plain]",
    ),
    _belief(
        "run a git that the repository brings", "holdfast.evidence.git:which",
        _anywhere_on_the_path,
        "git_is_not_run_from_the_repository_nor_from_a_relative_folder",
    ),
    _place(
        "follow a worktree that does not point back",
        "holdfast.workspace.location:_check_points_back", answer(),
        "no_folder_gets_the_ledger_of_another_project[make_pointer_to_a_worktree]",
    ),
    _place(
        "follow a link to the git file of a worktree",
        "holdfast.workspace.location:_check_points_back", _same_file,
        "no_folder_gets_the_ledger_of_another_project[make_link_to_the_git_file_of_a_worktree]",
    ),
    _place(
        "look for a repository above a ceiling", "holdfast.workspace.location:_is_ceiling",
        answer(False), "a_repository_above_a_ceiling_is_none[r/sub-r]",
    ),
    _belief(
        "trust a home in another worktree", "holdfast.workspace.location:is_in_repository",
        _below_this_worktree,
        "a_home_in_another_worktree_of_the_repository_trusts_nothing[linked]",
    ),
    _belief(
        "believe a ledger that git tracks", "holdfast.keeper.transfer:_is_tracked", answer(False),
        "a_ledger_that_git_tracks_is_not_believed_although_it_was_once_ones_own[2-]",
    ),
    _belief(
        "believe a ledger that git tracks in a folder", "holdfast.workspace.location:_is_tracked",
        answer(False),
        "a_ledger_that_git_tracks_is_not_believed_although_it_was_once_ones_own[4-sub]",
    ),
    Mutation(
        13, "let git run a repository's checker of signatures", "holdfast.evidence.git:_QUIET",
        _with_signatures, _PROGRAMS,
    ),
    Mutation(
        13, "let git run the filters of a submodule", "holdfast.evidence.commits:_STATUS",
        _in_submodules, _PROGRAMS,
    ),
    _place(
        "use a repository of another user", "holdfast.workspace.location:_check_owner", answer(),
        "a_repository_of_another_user_is_used_exactly_where_git_uses_it[r]",
    ),
    _place(
        "take a folder for a bare repository", "holdfast.workspace.location:_is_git_folder",
        answer(True), "a_folder_that_only_looks_like_a_bare_repository_is_none[objects]",
    ),
    _place(
        "let a stranger name the main worktree", "holdfast.workspace.location:_leads_to",
        answer(True), "a_worktree_of_a_stranger_cannot_say_that_its_main_one_is_elsewhere",
    ),
    _row(
        "wait for a pipe in a client's settings", "holdfast.layers.memory:_read_settings", _waiting,
        "pipes_and_devices",
    ),
]  # fmt: skip

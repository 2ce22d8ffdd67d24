"""Codex's own configuration: the ledger's folder in and out again, byte for byte."""

import os
import subprocess
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import install
from holdfast.errors import Refused
from holdfast.install import sandbox
from holdfast.workspace.settings import BadSettings

CONFIGS = {
    "empty": "",
    "a comment": "# mine\n",
    "no end of line": 'model = "x"',
    "other tables": 'model = "x" # best\n\n[projects."/a b"]\ntrust_level = "trusted"\n',
    "tables of tables": "[[a]]\nb = 1\n[[a]]\nb = 2\n",
    "windows": 'a = 1\r\n[b]\r\nc = "ü"\r\n',
    "byte order mark": "\ufeffa = 1\n",
    "no list yet": "[sandbox_workspace_write]\nnetwork_access = true # net\n\n[x]\ny = 1\n",
    "an empty table": "[sandbox_workspace_write]\n",
    "an empty list": "[sandbox_workspace_write]\nwritable_roots = []\n",
    "a list": '[sandbox_workspace_write]\nwritable_roots = ["/a", "/b"]  # two\n[x]\ny = 1\n',
    "a list over lines": (
        "[sandbox_workspace_write]\nwritable_roots = [\n  '/a', # mine\n  '/b'\n]\nz = 1\n"
    ),
    "a list with a last comma": (
        '[sandbox_workspace_write]\nwritable_roots = [\n    "/a",\n    "/b",\n]\n'
    ),
    "a list of comments": "[sandbox_workspace_write]\nwritable_roots = [\n    # mine\n]\n",
    "inline": "sandbox_workspace_write = { network_access = true }\nz = 1\n",
    "inline and empty": "sandbox_workspace_write = {}\n",
    "dotted": "sandbox_workspace_write.network_access = true\nz = 1\n[t]\nq = 1\n",
    "before its own part": "[sandbox_workspace_write.later]\nx = 1\n",
}
A, B = "/a/.git/holdfast", "/b/.git/holdfast"


class Codex:
    """A person's Codex: its configuration, and a project with a ledger's folder."""

    def __init__(self, project):
        self.project = project
        self.folder = os.path.realpath(project.path(".git/holdfast"))
        self.path = os.path.join(project.home, ".codex", "config.toml")

    def write(self, text):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def text(self):
        if not os.path.exists(self.path):
            return None
        with open(self.path, encoding="utf-8", newline="") as file:
            return file.read()

    def roots(self):
        return tomllib.loads((self.text() or "").removeprefix("\ufeff"))[sandbox.TABLE][
            sandbox.ROOTS
        ]

    def init(self, **options):
        return install.init(self.project.root, agent="codex", **options)

    def uninstall(self, **options):
        return install.uninstall(self.project.root, **options)

    def how(self, outcome):
        return {change.file.name: change.how for change in outcome.changes}.get(self.path)


@pytest.fixture
def codex(project):
    return Codex(project)


def test_exactly_the_ledgers_folder_is_allowed_and_it_is_there(codex):
    assert codex.how(codex.init()) == "created"
    assert codex.roots() == [codex.folder]
    assert os.stat(codex.folder).st_mode & 0o777 == 0o700
    assert codex.how(codex.init()) == "unchanged"
    assert codex.how(codex.uninstall()) == "removed"
    assert os.listdir(codex.project.home) == []
    assert not os.path.exists(codex.folder)


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_the_configuration_is_as_it_was_afterwards(codex, text):
    codex.write(text)
    assert codex.how(codex.init()) == "changed"
    assert codex.roots()[-1] == codex.folder
    assert codex.how(codex.uninstall()) == "restored"
    assert codex.text() == text


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_what_was_written_since_stays_and_only_the_folder_goes(codex, text):
    codex.write(text)
    codex.init()
    codex.write(f'{codex.text()}\n[projects."/new"]\ntrust_level = "trusted"\n')
    assert codex.how(codex.uninstall()) == "changed"
    left = tomllib.loads(codex.text().removeprefix("\ufeff"))
    assert left.pop("projects")["/new"] == {"trust_level": "trusted"}
    before = tomllib.loads(text.removeprefix("\ufeff"))
    before.pop("projects", None)
    assert left == before
    assert all(line in codex.text() for line in text.splitlines() if "#" in line)


@pytest.mark.parametrize("first", [A, B])
@pytest.mark.parametrize("name", ["empty", "a comment", "other tables", "windows", "a list"])
def test_two_projects_leave_nothing_behind_in_any_order(name, first):
    text = CONFIGS[name]
    with_a = sandbox.add_root(text, A)
    left = sandbox.add_root(with_a, B)
    for folder in (first, B if first == A else A):
        before = text if folder == A else with_a
        left = sandbox.remove_root(left, folder, before)
    assert left == text


TABLES = st.dictionaries(
    st.sampled_from(["network_access", "exclude_slash_tmp", "odd key"]), st.booleans()
)
FOLDERS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12))


@given(TABLES, FOLDERS | st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_configuration_says_the_same_but_for_the_folder(table, roots, name):
    import tomlkit

    folder = f"/{name}/.git/holdfast"
    held = {**table, **({} if roots is None else {sandbox.ROOTS: roots})}
    before = {"model": "x", sandbox.TABLE: held, "last": {"a": 1}}
    with_ours = sandbox.add_root(tomlkit.dumps(before), folder)
    wanted = {**held, sandbox.ROOTS: [*(roots or []), folder]}
    assert tomllib.loads(with_ours) == {**before, sandbox.TABLE: wanted}
    without = sandbox.remove_root(with_ours, folder, tomlkit.dumps(before))
    assert tomllib.loads(without) == before


def test_a_dry_run_shows_the_line_and_changes_nothing(codex):
    change = next(one for one in codex.init(dry_run=True).changes if one.file.name == codex.path)
    assert f'+writable_roots = ["{codex.folder}"]' in change.as_fields()["diff"]
    assert codex.text() is None
    assert not os.path.exists(codex.folder)


def test_the_folder_of_a_linked_worktree_is_the_repositorys(codex, tmp_path):
    base = ["git", "-c", "user.name=A", "-c", "user.email=a@b.c", "-C", codex.project.root]
    subprocess.run([*base, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*base, "worktree", "add", "-q", tmp_path / "other"], check=True)
    install.init(str(tmp_path / "other"), agent="codex")
    assert codex.roots() == [codex.folder]


def test_outside_git_nothing_has_to_be_allowed(project, tmp_path):
    (tmp_path / "plain").mkdir()
    outcome = install.init(str(tmp_path / "plain"), agent="codex")
    assert Codex(project).how(outcome) is None
    assert os.listdir(project.home) == []


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_other_clients_do_not_touch_it(codex, agent):
    install.init(codex.project.root, agent=agent)
    install.uninstall(codex.project.root, agent=agent)
    assert codex.text() is None


@pytest.mark.parametrize(
    "text",
    [
        "no toml",
        "sandbox_workspace_write = 7\n",
        "[sandbox_workspace_write]\nwritable_roots = '/a'\n",
    ],
)
def test_what_cannot_be_changed_is_refused_and_nothing_is_written(codex, text):
    codex.write(text)
    with pytest.raises(BadSettings):
        codex.init()
    assert codex.text() == text
    assert codex.project.names() == []


def test_a_repository_cannot_choose_what_the_sandbox_lets_out(codex, tmp_path):
    (tmp_path / "secret").mkdir()
    os.symlink(tmp_path / "secret", codex.project.path(".git/holdfast"))
    with pytest.raises(Refused, match="leads out of git's folder"):
        codex.init()
    assert codex.text() is None


def test_a_profile_that_takes_the_lists_place_is_said(codex):
    text = 'default_permissions = "mine"\n[permissions.mine.filesystem]\n":root" = "read"\n'
    codex.write(text)
    outcome = codex.init()
    assert codex.how(outcome) == "unchanged"
    assert any(f'"{codex.folder}" = "write"' in note for note in outcome.notes)
    codex.write(f'{text}"{codex.folder}" = "write"\n')
    assert not any("cannot write" in note for note in codex.init().notes)


def test_a_list_of_the_project_that_takes_its_place_is_said(codex):
    codex.project.write(".codex/config.toml", "[sandbox_workspace_write]\nwritable_roots = []\n")
    assert any("replaces your own list" in note for note in codex.init().notes)


def test_it_stays_as_long_as_other_hooks_of_codex_do(codex):
    codex.init()
    codex.init(scope="user")
    assert codex.how(codex.uninstall(agent="codex", scope="user")) is None
    assert codex.roots() == [codex.folder]
    assert codex.how(codex.uninstall(agent="codex")) == "removed"


def test_the_folder_stays_as_long_as_a_sandbox_has_to_mount_it(codex):
    codex.write(f'[sandbox_workspace_write]\nwritable_roots = ["{codex.folder}"]\n')
    install.init(codex.project.root)
    install.uninstall(codex.project.root, agent="claude")
    assert os.listdir(codex.folder) == []
    codex.uninstall()
    assert not os.path.exists(codex.folder)

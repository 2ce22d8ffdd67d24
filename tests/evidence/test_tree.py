"""The digest of the working tree: every edit changes it, and nothing but an edit does."""

import os
import tracemalloc

import pytest

from holdfast.core.workflow.needs import UNKNOWN_TREE
from holdfast.evidence import git, tree
from holdfast.workspace import location
from holdfast.workspace.location import find
from support.git_template import make_repository, run_git


class Repository:
    def __init__(self, path):
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        make_repository(path)
        self.write("a.txt", "one\n")
        self.commit()

    def git(self, *words):
        run_git(self.path, *words)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "more")

    def write(self, name, text):
        self.path.joinpath(name).write_text(text)

    def digest(self):
        return tree.digest_of(tree.read(location.find(os.fspath(self.path))))


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "work")


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_file_that_git_was_told_not_to_look_at_is_looked_at(repository, flag):
    before = repository.digest()
    repository.git("update-index", flag, "a.txt")
    assert repository.digest() == before
    repository.write("a.txt", "two\n")
    assert repository.digest() != before
    repository.write("a.txt", "one\n")
    assert repository.digest() == before


def test_a_file_left_out_of_a_sparse_checkout_counts_as_committed(repository):
    repository.git("update-index", "--skip-worktree", "a.txt")
    before = repository.digest()
    repository.path.joinpath("a.txt").unlink()
    assert repository.digest() == before


@pytest.mark.parametrize("name", ['"a.txt"', '"', "a\n", "a\r", "é\udcff", "-x", " "])
def test_names_that_are_no_words_are_files_like_others(repository, name):
    seen = {repository.digest()}
    for text in ("1\n", "2\n"):
        repository.write(name, text)
        seen.add(repository.digest())
    assert len(seen) == 3
    repository.git("add", "-A")
    assert repository.digest() in seen
    repository.commit()
    assert repository.digest() in seen


@pytest.fixture
def with_submodule(repository):
    Repository(repository.path.with_name("part"))
    repository.git("submodule", "add", "-q", "../part", "part")
    repository.commit()
    return repository


def test_an_edit_in_a_submodule_is_an_edit_and_a_commit_there_is_none(with_submodule):
    before = with_submodule.digest()
    with_submodule.write("part/a.txt", "two\n")
    edited = with_submodule.digest()
    assert edited != before
    with_submodule.git("-C", "part", "commit", "-q", "-a", "-m", "more")
    assert with_submodule.digest() == edited
    with_submodule.commit()
    assert with_submodule.digest() == edited
    with_submodule.write("part/new.txt", "")
    assert with_submodule.digest() != edited


def test_a_worktree_inside_the_worktree_is_none_of_its_files(repository):
    before = repository.digest()
    repository.git("worktree", "add", "-q", "inner/one")
    assert repository.digest() == before
    repository.git("-C", "inner/one", "commit", "-q", "--allow-empty", "-m", "more")
    assert repository.digest() == before


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"]
)
def test_what_git_tells_its_hooks_does_not_lead_elsewhere(repository, monkeypatch, name):
    repository.write("b.log", "not counted\n")
    repository.write(".gitignore", "*.log\n")
    before = repository.digest()
    monkeypatch.setenv(name, "/nowhere")
    assert repository.digest() == before


def test_without_git_a_link_to_a_folder_is_seen_to_lead_elsewhere(tmp_path):
    place = location.find(os.fspath(tmp_path))
    tmp_path.joinpath("link").symlink_to("one")
    for name in ("one", "two"):
        tmp_path.joinpath(name).mkdir()
    before = tree.digest_of(tree.read(place))
    tmp_path.joinpath("link").unlink()
    tmp_path.joinpath("link").symlink_to("two")
    assert tree.digest_of(tree.read(place)) != before


def test_a_large_file_is_not_held_in_memory(tmp_path):
    place = location.find(os.fspath(tmp_path))
    with tmp_path.joinpath("large").open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    try:
        tree.read(place)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_file_that_is_staged_between_two_reads_is_read_again(repository):
    before = repository.digest()
    repository.write("a.txt", "two\n")
    repository.git("add", "-A")
    assert repository.digest() != before
    repository.write("a.txt", "one\n")
    repository.git("add", "-A")
    assert repository.digest() == before


@pytest.mark.parametrize("is_git", [True, False])
def test_files_of_any_size_take_no_time_and_a_change_of_them_is_seen(is_git, tmp_path):
    root = str(tmp_path / "r")
    make_repository(root) if is_git else os.makedirs(root)
    for name in ("a", "b", "c"):
        os.truncate(os.open(f"{root}/{name}", os.O_CREAT | os.O_RDWR), 1 << 40)
    with open(f"{root}/small", "w", encoding="utf-8") as file:
        file.write("small")
    workspace = find(root)
    before = tree.read(workspace)
    assert tree.digest_of(tree.read(workspace)) == tree.digest_of(before)
    with open(f"{root}/b", "r+", encoding="utf-8") as file:
        file.write("x")
    os.utime(f"{root}/b", (1, 1))
    assert tree.changed(before, tree.read(workspace)) == ["b"]
    with open(f"{root}/small", "w", encoding="utf-8") as file:
        file.write("other")
    assert tree.changed(before, tree.read(workspace)) == ["b", "small"]
    if is_git:
        lines = git.lines_added(root, None, "2020-01-01T00:00:00Z")
        assert lines == {"a": 0, "b": 0, "c": 0, "small": 0}


def test_a_folder_outside_git_with_too_many_files_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "_MAX_FILES", 5)
    for number in range(6):
        (tmp_path / f"{number}").write_text("x")
    files = tree.read(find(str(tmp_path)))
    assert tree.digest_of(files).endswith("there are more than 5 files")


def test_the_smallest_files_are_read_first_up_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "_MAX_HASHED_BYTES", 10)
    for name, size in (("a", 9), ("b", 4), ("c", 5), ("empty", 0)):
        (tmp_path / name).write_text("x" * size)
    files = tree.read(find(str(tmp_path)))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b").write_text("xxxx")
    again = tree.read(find(str(tmp_path)))
    assert files["b"] == again[os.path.join("other", "b")]
    assert {name for name in files if len(files[name].split()[1]) != 40} == {"a"}
    assert {name for name in again if len(again[name].split()[1]) != 40} == {"a", "c"}


@pytest.mark.parametrize("size", [40, 60, 84, 96, 100])
def test_an_index_that_was_cut_off_is_no_way_into_the_repository_without_end(repository, size):
    """After a power cut, git finds files like ``./`` in it."""
    repository.write("b.txt", "two\n")
    repository.commit()
    before = repository.digest()
    os.truncate(repository.path / ".git" / "index", size)
    assert repository.digest() in (before, f"{UNKNOWN_TREE}git's index is damaged")

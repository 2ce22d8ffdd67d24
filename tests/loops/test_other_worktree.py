"""A loop that is resumed in another worktree takes its pages along, and nobody else's."""

import errno
import os
import shutil

import pytest

from holdfast import Loops
from holdfast.core.workflow import is_active
from holdfast.system.disk import Disk
from promises.power import Cut
from support.disks import CountingDisk, Died, DyingDisk, RecordingDisk
from support.git_template import make_repository, run_git
from support.workshop import Workshop, sampled

pytestmark = pytest.mark.promise(1)

HOME = ".claude/iterative"
PAGES = f"{HOME}/auth"
ARCHIVED = f"{HOME}/archive/auth-20260217"
NAMES = ["brief.md", "context.md", "guardrails.md", "progress.md", "state.json", "tasks.md"]
MINE = f"{PAGES}/notes of mine.txt"


class Trees:
    """A main worktree and a linked one, ``left``, with one clock."""

    def __init__(self, top):
        self.top = os.fspath(top)
        self.main = Workshop(f"{self.top}/main", git=False)
        self.left = Workshop(f"{self.top}/left", git=False)
        self.left.clock = self.main.clock

    @classmethod
    def made(cls, top):
        trees = cls(top)
        os.rmdir(trees.left.root)
        make_repository(trees.main.root, committed=True)
        run_git(trees.main.root, "worktree", "add", "-q", "-b", "left", "../left")
        return trees

    def copied(self, top):
        """The same in another place; git's worktrees know where they are."""
        shutil.copytree(self.top, top, symlinks=True)
        copy = Trees(top)
        copy.main.write(".git/worktrees/left/gitdir", f"{copy.left.root}/.git\n".encode())
        pointer = f"gitdir: {copy.main.root}/.git/worktrees/left\n"
        copy.left.write(".git", pointer.encode())
        return copy


@pytest.fixture
def trees(tmp_path):
    return Trees.made(tmp_path / "trees")


def begun(trees, *, by_hand=True):
    """A loop in ``left`` with an iteration, and with what a person wrote on its pages."""
    loops = Loops(trees.left.keeper())
    loops.new("auth", outcome="log in")
    loops.plan("auth", "T1: One")
    loops.iterate("T1", did="half", remaining="the rest")
    if by_hand:
        left = trees.left
        left.write(MINE, b"mine")
        left.write(f"{PAGES}/sources/deep/a.txt", b"deep")
        left.write(f"{PAGES}/context.md", left.read(f"{PAGES}/context.md") + b"\nby hand\n")
        left.write(f"{PAGES}/tasks.md", left.read(f"{PAGES}/tasks.md").replace(b"One", b"Uno"))
        left.write(f"{PAGES}/progress.md", left.read(f"{PAGES}/progress.md") + b"\nA remark.\n")
    return {path: data for path, data in trees.left.files().items() if path.startswith(PAGES)}


def pages_of(shop):
    """The pages that stand there, without the record, which is Holdfast's."""
    found = {path: data for path, data in shop.files().items() if path.startswith(PAGES)}
    return {path: data for path, data in found.items() if "state.json" not in path}


def assert_all_went_along(trees, pages):
    pages = {path: data for path, data in pages.items() if "state.json" not in path}
    assert pages_of(trees.main) == pages
    assert pages_of(trees.left) == {}
    state = Loops(trees.main.keeper()).show("auth").state
    assert (state["worktree"], state["tasks"][0]["description"]) == (".", "Uno")
    assert b"by hand" in trees.main.read(f"{PAGES}/context.md")
    assert b"\nA remark.\n" in trees.main.read(f"{PAGES}/progress.md")


def test_the_pages_go_along_with_what_people_wrote(trees):
    pages = begun(trees)
    receipt = trees.main.keeper().resume(workflow="auth")
    assert receipt.notes == ["auth moved here, to branch main"]
    assert_all_went_along(trees, pages)
    assert not os.path.exists(trees.left.path(PAGES))
    assert trees.main.keeper().verify().ok


def test_there_and_back_again_nothing_has_changed(trees):
    pages = begun(trees)
    trees.main.keeper().resume(workflow="auth")
    trees.left.keeper().resume(workflow="auth")
    record = f"{PAGES}/state.json"
    assert pages_of(trees.left) == {path: pages[path] for path in pages if path != record}
    assert not os.path.exists(trees.main.path(PAGES))


def test_what_stands_in_the_new_place_is_kept_under_another_name(trees):
    pages = begun(trees)
    others = {f"{PAGES}/{name}": b"other" for name in ("tasks.md", "progress.md", "draft.md")}
    others |= {MINE: b"other", f"{PAGES}/brief.md": pages[f"{PAGES}/brief.md"]}
    for path, data in others.items():
        trees.main.write(path, data)
    notes = trees.main.keeper().resume(workflow="auth").notes
    assert "another tasks.md stood here, and is now tasks-2.md" in notes
    found = pages_of(trees.main)
    for name in ("tasks", "progress"):
        assert found.pop(f"{PAGES}/{name}-2.md") == b"other"
    assert found.pop(f"{PAGES}/draft.md") == b"other"
    assert found.pop(f"{PAGES}/notes of mine-2.txt") == b"other"
    assert found == {path: pages[path] for path in found}
    assert len(found) == len(pages) - 1


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_is_no_file_in_the_place_of_a_page_is_not_taken_for_one(trees, kind):
    begun(trees)
    place = trees.main.path(PAGES, "tasks.md")
    os.makedirs(trees.main.path(PAGES))
    {"folder": os.mkdir, "pipe": os.mkfifo, "link": lambda p: os.symlink("x", p)}[kind](place)
    trees.main.keeper().resume(workflow="auth")
    assert os.path.lexists(trees.main.path(PAGES, "tasks-2.md"))
    assert Loops(trees.main.keeper()).show("auth").state["tasks"][0]["description"] == "Uno"


def test_a_new_loop_in_the_old_worktree_begins_with_nothing(trees):
    begun(trees)
    trees.main.keeper().resume(workflow="auth")
    Loops(trees.main.keeper()).archive("auth")
    state = Loops(trees.left.keeper()).new("auth").state
    assert state["tasks"] == []
    assert sorted(os.listdir(trees.left.path(PAGES))) == NAMES


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("iterated", [False, True])
def test_pages_of_an_earlier_loop_are_never_those_of_a_new_one(trees, runs, iterated):
    """Git, a copy or an older Holdfast may have left them."""
    loops = Loops(trees.left.keeper())
    loops.new("auth", outcome="log in")
    loops.plan("auth", "T1: One")
    if iterated:
        loops.iterate("T1", did="half", remaining="the rest")
    pages = pages_of(trees.left)
    trees.main.keeper().resume(workflow="auth")
    Loops(trees.main.keeper()).archive("auth")
    for _ in range(1, runs):
        Loops(trees.main.keeper()).new("auth")
        Loops(trees.main.keeper()).archive("auth")
    for path, data in pages.items():
        trees.left.write(path, data)
    receipt = Loops(trees.left.keeper()).new("auth", outcome="another thing")
    assert receipt.state["tasks"] == []
    assert b"another thing" in trees.left.read(f"{PAGES}/brief.md")
    assert f"pages of an earlier auth stood here, and are now in {ARCHIVED}" in receipt.notes
    kept = {path.replace(PAGES, ARCHIVED): data for path, data in pages.items()}
    assert {path: trees.left.read(path) for path in kept} == kept


def test_pages_that_a_person_prepared_are_taken_in_as_before(trees):
    trees.left.write(f"{PAGES}/tasks.md", b"# Mine\n\n## Tasks\n\n- [ ] **T1**: One\n")
    state = Loops(trees.left.keeper()).new("auth").state
    assert [task["description"] for task in state["tasks"]] == ["One"]


def test_a_loop_comes_out_of_another_worktrees_archive_with_its_pages(trees):
    begun(trees)
    Loops(trees.left.keeper()).archive("auth")
    before = {path: data for path, data in trees.left.files().items() if ARCHIVED in path}
    receipt = trees.main.keeper().resume(workflow="auth")
    assert (receipt.state["worktree"], is_active(receipt.state)) == (".", True)
    assert receipt.state["record"] == f"{PAGES}/state.json"
    wanted = {path.replace(ARCHIVED, PAGES): data for path, data in before.items()}
    assert pages_of(trees.main) == {p: wanted[p] for p in wanted if "state.json" not in p}
    assert not os.path.exists(trees.left.path(ARCHIVED))
    assert not os.path.exists(trees.left.path(PAGES))


class FarDisk(Disk):
    """Each worktree is a file system of its own."""

    def move(self, source, target):
        if ("/left/" in source) != ("/left/" in target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        super().move(source, target)


def test_the_pages_go_along_to_another_file_system(trees):
    pages = begun(trees)
    os.symlink("nowhere", trees.left.path(PAGES, "link"))
    os.makedirs(trees.main.path(PAGES, ".notes of mine.txt.holdfast-moving"))
    trees.main.keeper(disk=FarDisk()).resume(workflow="auth")
    assert os.readlink(trees.main.path(PAGES, "link")) == "nowhere"
    os.unlink(trees.main.path(PAGES, "link"))
    assert_all_went_along(trees, pages)


def killed_at_every_call(trees, act):
    """The worktrees after a kill at a disk call of an act, of many some; one after the other."""
    counting = CountingDisk()
    act(trees.copied(f"{trees.top}-count"), counting)
    for at in sampled(range(1, len(counting.calls) + 1), 40):
        copy = trees.copied(f"{trees.top}-{at}")
        with pytest.raises(Died):
            act(copy, DyingDisk(at))
        yield copy
        shutil.rmtree(copy.top)


def resume(trees, disk):
    trees.main.keeper(disk=disk).resume(workflow="auth")


def open_anew(trees, disk):
    Loops(trees.left.keeper(disk=disk)).new("auth")


def test_killed_at_any_moment_the_move_is_finished_by_the_next_one(trees, tally):
    pages = begun(trees)
    points = 0
    for copy in killed_at_every_call(trees, resume):
        copy.main.keeper().resume(workflow="auth")
        copy.main.keeper().show(workflow="auth")
        assert_all_went_along(copy, pages)
        points += 1
    tally("kills while a loop moves to another worktree", points=points)


def test_killed_at_any_moment_nothing_is_lost_wherever_somebody_goes_on(trees, tally):
    pages = begun(trees)
    texts = [data for path, data in pages.items() if "state.json" not in path]
    points = 0
    for copy in killed_at_every_call(trees, resume):
        everything = [*copy.left.files().values(), *copy.main.files().values()]
        assert all(text in everything for text in texts)
        Loops(copy.left.keeper()).show("auth")
        Loops(copy.left.keeper()).iterate("T1", did="more", remaining="a bit", slug="auth")
        copy.main.keeper().resume(workflow="auth")
        state = Loops(copy.main.keeper()).show("auth").state
        assert (state["worktree"], state["tasks"][0]["iterations_used"]) == (".", 2)
        found = b"\n".join(pages_of(copy.main).values())
        for text in (b"mine", b"deep", b"by hand", b"Uno", b"A remark."):
            assert text in found
        points += 1
    tally("kills while a loop moves, and goes on where it was", points=points)


def test_killed_at_any_moment_a_new_loop_has_nothing_of_an_earlier_one(trees, tally):
    pages = begun(trees)
    resume(trees, Disk())
    Loops(trees.main.keeper()).archive("auth")
    for path, data in pages.items():
        trees.left.write(path, data)
    points = 0
    for copy in killed_at_every_call(trees, open_anew):
        open_anew(copy, Disk())
        assert Loops(copy.left.keeper()).show("auth").state["tasks"] == []
        assert b"mine" in copy.left.files().values()
        points += 1
    tally("kills while pages of an earlier loop are put away", points=points)


def test_what_people_wrote_survives_a_power_cut_after_the_move(trees):
    begun(trees)
    shutil.rmtree(trees.left.path(PAGES, "sources"))  # The recording knows moves of files alone.
    disk = RecordingDisk(trees.top)
    trees.main.keeper(disk=disk).resume(workflow="auth")
    cut = Cut(disk, len(disk.log))
    lost = [one for one, _ in cut.pending]
    for kept in (lambda _: True, lambda _: False, *(lambda e, o=o: e is not o for o in lost)):
        tree, _ = cut.left(kept, lambda data, _: data)
        everything = b"\n".join(data for _, data in tree.values())
        assert all(text in everything for text in (b"mine", b"by hand", b"Uno", b"A remark."))

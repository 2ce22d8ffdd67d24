"""The archive: nothing in it is overwritten, and a kill at any moment leaves nothing half done."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast import Loops, Refused
from holdfast.core.workflow import is_active
from holdfast.loops.progress_log import read_entries, without_cut_entries
from support.disks import CountingDisk, Died, DyingDisk
from support.loop_files import HOME, open_loop
from support.workshop import Workshop

pytestmark = pytest.mark.promise(1)

PLACE = f"{HOME}/archive/user-auth-20260217"
PAGES = {"brief.md", "context.md", "guardrails.md", "progress.md", "state.json", "tasks.md"}


def finished(shop):
    loops = open_loop(shop, "T1: One")
    loops.iterate("T1", did="all", signal="T1_DONE")
    loops.confirm("T1")
    loops.verify("T1")
    shop.write(f"{HOME}/user-auth/notes of mine.txt", b"mine")
    return loops


def test_a_finished_loop_goes_into_the_archive_whole(shop):
    receipt = finished(shop).archive()
    assert set(os.listdir(shop.path(PLACE))) == {*PAGES, "notes of mine.txt"}
    assert not os.path.exists(shop.path(HOME, "user-auth"))
    assert (receipt.state["status"], receipt.state["phase"]) == ("completed", "complete")
    assert shop.document(f"{PLACE}/state.json")["phase"] == "complete"
    assert "## Archived - " in shop.read(f"{PLACE}/progress.md").decode()
    with pytest.raises(Refused, match="is in the archive"):
        Loops(shop.keeper()).archive("user-auth")


def test_an_unfinished_loop_is_archived_too_and_says_so(shop):
    receipt = open_loop(shop, "T1: One").archive()
    assert receipt.state["status"] == "abandoned"
    assert receipt.notes == ["it was not finished: T1"]
    assert "archived unfinished: T1" in shop.read(f"{PLACE}/progress.md").decode()


def seen_by_git(shop):
    words = ["git", "status", "--porcelain", "-uall"]
    done = subprocess.run(words, cwd=shop.path(), capture_output=True, text=True, check=True)
    return {os.path.basename(line) for line in done.stdout.split()}


@pytest.fixture
def old_exclude(shop):
    """One whose exclude file is from before the archive was left out."""
    open_loop(shop, "T1: One")
    exclude = Path(shop.path(".git/info/exclude"))
    exclude.write_text(exclude.read_text().replace("/**/", "/*/"))
    return shop


def test_git_sees_the_pages_in_the_archive_and_not_the_record(old_exclude):
    Loops(old_exclude.keeper()).archive("user-auth")
    seen = seen_by_git(old_exclude)
    assert "progress.md" in seen
    assert "state.json" not in seen


def test_a_repair_leaves_records_out_of_git_that_were_archived_long_ago(old_exclude):
    exclude = Path(old_exclude.path(".git/info/exclude"))
    old = exclude.read_text()
    Loops(old_exclude.keeper()).archive("user-auth")
    exclude.write_text(old)
    assert "state.json" in seen_by_git(old_exclude)
    old_exclude.keeper().repair()
    assert "state.json" not in seen_by_git(old_exclude)


def test_a_second_one_of_the_same_day_gets_a_number_and_the_first_stays(shop):
    finished(shop).archive()
    first = {name: shop.read(f"{PLACE}/{name}") for name in PAGES}
    for number in (2, 3):
        receipt = open_loop(shop, "T1: One").archive()
        assert receipt.state["record"] == f"{PLACE}-{number}/state.json"
        assert os.path.exists(shop.path(receipt.state["record"]))
    assert {name: shop.read(f"{PLACE}/{name}") for name in PAGES} == first


def test_what_stands_in_the_archive_already_is_left_alone(shop):
    shop.write(PLACE, b"a file of mine")
    assert open_loop(shop, "T1: One").archive().state["record"] == f"{PLACE}-2/state.json"
    assert shop.read(PLACE) == b"a file of mine"


def test_an_archived_loop_comes_back_with_its_pages(shop):
    before = finished(shop).show().state
    Loops(shop.keeper()).archive()
    receipt = shop.keeper().resume(workflow="user-auth")
    assert is_active(receipt.state)
    assert receipt.state["tasks"] == before["tasks"]
    assert shop.read(f"{HOME}/user-auth/notes of mine.txt") == b"mine"
    assert set(os.listdir(shop.path(HOME, "user-auth"))) >= PAGES
    assert not os.path.exists(shop.path(PLACE))
    assert Loops(shop.keeper()).next()[0]["turn"] == "archive"
    Loops(shop.keeper()).archive()
    assert set(os.listdir(shop.path(PLACE))) == {*PAGES, "notes of mine.txt"}


def test_a_new_loop_of_the_name_leaves_the_archived_one_where_it_is(shop):
    finished(shop).archive()
    record = shop.read(f"{PLACE}/state.json")
    receipt = open_loop(shop, "T1: One").show()
    assert receipt.state["record"] == f"{HOME}/user-auth/state.json"
    assert shop.read(f"{PLACE}/state.json") == record


def test_a_new_loop_of_the_name_has_a_log_of_its_own(shop):
    finished(shop).archive()
    loops = open_loop(shop, "T1: One")
    assert read_entries(shop.read(f"{HOME}/user-auth/progress.md").decode()) == []
    assert loops.rebuild().state["tasks"][0]["status"] == "pending"
    loops.iterate("T1", did="some", remaining="more")
    (told,) = read_entries(shop.read(f"{HOME}/user-auth/progress.md").decode())
    assert told.fields["did"] == "some"


def test_a_folder_that_is_no_loop_of_ours_is_not_moved_into_the_archive(shop):
    finished(shop).archive()
    shop.write(f"{HOME}/user-auth/draft.md", b"a draft")
    with pytest.raises(Refused, match="is in the archive"):
        Loops(shop.keeper()).archive("user-auth")
    assert shop.read(f"{HOME}/user-auth/draft.md") == b"a draft"


def killed_at_every_call(shop, act):
    """The workspace after a kill at each disk call of an act, one copy after the other."""
    counting = CountingDisk()
    copy = Workshop(f"{shop.root}-count", git=False)
    shutil.copytree(shop.root, copy.root, symlinks=True, dirs_exist_ok=True)
    act(copy.keeper(disk=counting))
    shutil.rmtree(copy.root, ignore_errors=True)
    for at in range(1, len(counting.calls) + 1):
        copy = Workshop(f"{shop.root}-{at}", git=False)
        shutil.copytree(shop.root, copy.root, symlinks=True, dirs_exist_ok=True)
        with pytest.raises(Died):
            act(copy.keeper(disk=DyingDisk(at)))
        yield copy
        # A connection that is collected only now may remove files of its own.
        shutil.rmtree(copy.root, ignore_errors=True)


def contents(shop, folder):
    """Pages with their bytes, but for those that tell of times; and not what torn writes left."""
    found = sorted(os.listdir(shop.path(folder)))
    names = [name for name in found if name[0] != "." and "rejected" not in name]
    timed = ("state.json", "progress.md")
    return {name: b"" if name in timed else shop.read(f"{folder}/{name}") for name in names}


def test_killed_at_any_moment_an_archive_is_finished_by_the_next_one(shop, tally):
    finished(shop)
    points = 0
    for copy in killed_at_every_call(shop, lambda keeper: Loops(keeper).archive("user-auth")):
        before = contents(shop, f"{HOME}/user-auth")
        try:
            Loops(copy.keeper()).archive("user-auth")
        except Refused as refused:
            assert refused.code == "already"
        assert contents(copy, PLACE) == before
        assert not os.path.exists(copy.path(HOME, "user-auth"))
        assert copy.document(f"{PLACE}/state.json")["phase"] == "complete"
        assert os.listdir(copy.path(HOME, "archive")) == ["user-auth-20260217"]
        log = copy.read(f"{PLACE}/progress.md").decode()
        kinds = [entry.kind for entry in without_cut_entries(read_entries(log))]
        assert kinds[-2:] == ["completed", "archived"]
        assert len(kinds) == 5
        assert copy.keeper().show(workflow="user-auth").state["status"] == "completed"
        points += 1
    tally("kills while a loop is archived", points=points)


def test_killed_at_any_moment_a_return_is_finished_by_the_next_one(shop, tally):
    finished(shop)
    before = contents(shop, f"{HOME}/user-auth")
    Loops(shop.keeper()).archive()
    points = 0
    for copy in killed_at_every_call(shop, lambda keeper: keeper.resume(workflow="user-auth")):
        copy.keeper().resume(workflow="user-auth")
        Loops(copy.keeper()).show("user-auth")
        assert contents(copy, f"{HOME}/user-auth") == before
        assert not os.path.exists(copy.path(PLACE))
        points += 1
    tally("kills while an archived loop returns", points=points)


def test_killed_at_any_moment_an_iteration_is_neither_lost_nor_doubled(shop, tally):
    open_loop(shop, "T1: One")
    points = 0

    def iterate(keeper):
        Loops(keeper).iterate("T1", did="some", remaining="more", id="turn-1")

    for copy in killed_at_every_call(shop, iterate):
        iterate(copy.keeper())
        state = Loops(copy.keeper()).show("user-auth").state
        assert state["tasks"][0]["iterations_used"] == 1
        log = copy.read(f"{HOME}/user-auth/progress.md").decode()
        assert log.count("**Remaining:** more\n**Blockers:** None") == 1
        assert "1 in progress" in copy.read(f"{HOME}/user-auth/tasks.md").decode()
        points += 1
    tally("kills while an iteration is recorded", points=points)

"""A file that people edit too is patched; what a killed run left beside it is cleared up."""

import os

import pytest

from holdfast.core.text_merge import merge_lines
from holdfast.errors import Fault, Refused
from holdfast.storage import shared_file
from holdfast.system.disk import Disk
from support.editors import LIMITS


def tick(raw):
    """Tick every box; a file with a question cannot be patched."""
    if raw is None:
        return b"- [x] new\n"
    if b"?" in raw:
        raise Refused("bad_file", "it asks", "answer it")
    return raw.replace(b"[ ]", b"[x]")


@pytest.fixture
def page(tmp_path):
    return tmp_path / "page.md"


def update(page):
    notes = []
    shared_file.update(Disk(), str(page), tick, "the page", notes.append)
    return notes


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, b"- [x] new\n"), (b"- [ ] a\n", b"- [x] a\n"), (b"- [x] a\n", b"- [x] a\n")],
)
def test_a_file_is_made_patched_or_left_as_it_is(page, before, after):
    if before is not None:
        page.write_bytes(before)
    assert update(page) == []
    assert page.read_bytes() == after
    assert os.listdir(page.parent) == ["page.md"]


def test_a_file_that_needs_no_patch_is_not_written(page):
    page.write_bytes(b"- [x] a\n")
    inode = page.stat().st_ino
    update(page)
    assert page.stat().st_ino == inode


@pytest.mark.parametrize("left", [b"", b"- [ ] a\n", b"- [x] a\n"])
def test_what_the_patch_makes_the_same_of_is_removed(page, left):
    page.write_bytes(b"- [x] a\n")
    (page.parent / ".page.md.holdfast-0").write_bytes(left)
    assert update(page) == []
    assert os.listdir(page.parent) == ["page.md"]


@pytest.mark.parametrize("left", [b"- [ ] b\n", b"why?\n"])
def test_what_another_program_saved_is_kept_and_noted(page, left):
    page.write_bytes(b"- [ ] a\n")
    (page.parent / ".page.md.holdfast-0").write_bytes(left)
    note = "what a killed command left beside the page is kept as page.md.found-0"
    assert update(page) == [note]
    assert (page.parent / "page.md.found-0").read_bytes() == left
    assert page.read_bytes() == b"- [x] a\n"


def test_a_file_that_cannot_be_patched_stays(page):
    page.write_bytes(b"- [ ] a?\n")
    with pytest.raises(Refused):
        update(page)
    assert page.read_bytes() == b"- [ ] a?\n"


def test_a_folder_in_its_place_is_an_error(page):
    page.mkdir()
    with pytest.raises(OSError, match="it is a folder"):
        update(page)


class Watched(Disk):
    """A disk on which other programs save the file, one after the other, before it is replaced."""

    def __init__(self, *saves):
        super().__init__()
        self.saves = list(saves)

    def replace(self, path, spare, **options):
        if self.saves:
            self.saves.pop(0)()
        return super().replace(path, spare, **options)


def save(page, old, new):
    """Return an editor that changes the file as it is then, by a rename."""

    def edit():
        text = page.read_bytes()
        assert old in text
        (page.parent / "page.md~").write_bytes(text.replace(old, new, 1))
        os.replace(page.parent / "page.md~", page)

    return edit


def add(page, text):
    def append():
        with open(page, "ab") as file:
            file.write(text)

    return append


each_limit = pytest.mark.parametrize("limit", LIMITS)


@each_limit
def test_two_saves_during_one_write_are_both_there(page, monkeypatch, limit):
    LIMITS[limit](monkeypatch)
    page.write_bytes(b"- [ ] a\n- [ ] b\n- [ ] c\n")
    disk = Watched(save(page, b"a", b"first"), save(page, b"c", b"second"))
    notes = []
    shared_file.update(disk, str(page), tick, "the page", notes.append, merge=merge_lines)
    assert page.read_bytes() == b"- [x] first\n- [x] b\n- [x] second\n"
    assert notes == []
    assert os.listdir(page.parent) == ["page.md"]


@each_limit
@pytest.mark.parametrize("merge", [merge_lines, None])
def test_the_first_of_two_saves_that_cannot_be_merged_is_kept(page, monkeypatch, limit, merge):
    LIMITS[limit](monkeypatch)
    page.write_bytes(b"- [ ] a\n")
    disk = Watched(save(page, b"a", b"first"), save(page, b"a", b"second"))
    notes = []
    shared_file.update(disk, str(page), tick, "the page", notes.append, merge=merge)
    assert page.read_bytes() == b"- [x] second\n"
    assert (page.parent / "page.md.found-0").read_bytes() == b"- [x] first\n"
    assert sorted(os.listdir(page.parent)) == ["page.md", "page.md.found-0"]
    assert [note for note in notes if "page.md.found-0" in note] == notes != []


@each_limit
def test_lines_that_are_appended_meanwhile_stay_in_their_order(page, monkeypatch, limit):
    LIMITS[limit](monkeypatch)
    page.write_bytes(b"- [ ] a\n")
    disk = Watched(add(page, b"one\n"), add(page, b"two\n"))
    shared_file.update(disk, str(page), tick, "the page", print, merge=merge_lines)
    assert page.read_bytes() == b"- [x] a\none\n"
    shared_file.update(disk, str(page), tick, "the page", print, merge=merge_lines)
    assert os.listdir(page.parent) == ["page.md"]


@each_limit
def test_a_file_that_a_program_has_open_is_left_to_it(page, monkeypatch, limit):
    """It was opened just before it was replaced: it gets its name back."""
    LIMITS[limit](monkeypatch)
    page.write_bytes(b"- [ ] a\n")
    opened = []
    disk = Watched(lambda: opened.append(os.open(page, os.O_WRONLY | os.O_APPEND)))
    with pytest.raises(Fault, match="is being written all the time"):
        shared_file.update(disk, str(page), tick, "the page", print, lambda _seconds: None)
    os.write(opened[0], b"slowly\n")
    os.close(opened[0])
    assert page.read_bytes() == b"- [ ] a\nslowly\n"
    assert os.listdir(page.parent) == ["page.md"]
    update(page)
    assert page.read_bytes() == b"- [x] a\nslowly\n"


def test_a_save_that_cannot_be_patched_is_put_back(page):
    page.write_bytes(b"- [ ] a\n")
    with pytest.raises(Refused):
        shared_file.update(
            Watched(save(page, b"a", b"a?")), str(page), tick, "the page", print, merge=merge_lines
        )
    assert page.read_bytes() == b"- [ ] a?\n"
    assert os.listdir(page.parent) == ["page.md"]


def test_what_is_kept_is_named_by_the_error_too(page):
    """The answer of a command that failed has no notes."""
    page.write_bytes(b"- [ ] a\n")
    disk = Watched(save(page, b"a", b"first"), save(page, b"first", b"b?"))
    disk.saves[1] = save(page, b"a", b"second?")
    with pytest.raises(Refused) as refused:
        shared_file.update(disk, str(page), tick, "the page", print)
    assert "page.md.found-0" in refused.value.message
    kept = [name for name in os.listdir(page.parent) if name in refused.value.message]
    texts = b"".join((page.parent / name).read_bytes() for name in kept)
    assert b"first" in texts
    assert page.read_bytes() == b"- [x] second?\n"


def test_a_file_without_its_name_gets_it_back(page):
    """A run without an exchange was killed between two renames."""
    (page.parent / ".page.md.holdfast-0.old").write_bytes(b"- [ ] a\n")
    (page.parent / ".page.md.holdfast-0").write_bytes(b"- [x] a\n")
    assert update(page) == []
    assert page.read_bytes() == b"- [x] a\n"
    assert os.listdir(page.parent) == ["page.md"]


def test_a_temporary_file_that_is_being_written_is_not_dropped(page):
    page.write_bytes(b"- [x] a\n")
    with open(page.parent / ".page.md.holdfast-0", "wb", buffering=0) as file:
        file.write(b"- [x] a\n")
        assert update(page) == []
        file.write(b"- [x] more\n")
    assert update(page) == ["what a killed command left beside the page is kept as page.md.found-0"]
    assert (page.parent / "page.md.found-0").read_bytes() == b"- [x] a\n- [x] more\n"

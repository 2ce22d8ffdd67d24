"""A file that people edit too is patched; what a killed run left beside it is cleared up."""

import os

import pytest

from holdfast.errors import Refused
from holdfast.storage import shared_file
from holdfast.system.disk import Disk


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

"""What cannot be used is refused with its place and the next step, and nothing is changed."""

import json
import os

import pytest

from holdfast import Fault, HoldfastError, Refused
from initiatives.ground import RECORD, TOP, YAML

pytestmark = pytest.mark.promise(10)

BAD_YAML = {
    "aliases": b"a: &x 1\nb: *x\n",
    "tabs": b"status: created\n\tmilestone: M1\n",
    "duplicate keys": b"status: created\nstatus: blocked\n",
    "a list at the top": b"- status: created\n",
    "two documents": b"status: a\n---\nstatus: b\n",
    "no UTF-8": b"status: \xff\xfe\n",
    "too large": b"x: " + b"y" * 100_000,
}


def everything(ground):
    """Every file of the workspace but what only Holdfast reads."""
    found = {}
    for folder, _, names in os.walk(ground.root):
        for name in names:
            path = os.path.join(folder, name)
            if not name.endswith((".lock", "-wal", "-shm")) and name != "lock":
                with open(path, "rb") as file:
                    found[os.path.relpath(path, ground.root)] = file.read()
    return found


def refused(change):
    with pytest.raises(Refused) as caught:
        change()
    assert caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", BAD_YAML)
def test_a_yaml_that_cannot_be_read_is_refused_with_its_line(ground, name):
    ground.begin()
    ground.initiatives().start("M1")
    ground.write(ground.yaml, BAD_YAML[name])
    before = everything(ground)
    for change in (
        lambda: ground.initiatives().complete("M1"),
        lambda: ground.initiatives().block("no key"),
        lambda: ground.initiatives().sync(),
    ):
        error = refused(change)
        assert (error.code, error.details["path"]) == ("bad_file", ground.yaml)
        assert f"line {error.details['line']}" in error.message
        assert everything(ground) == before
    fields, notes = ground.initiatives().show()
    assert fields["initiative"]["status"] == "in_progress"
    assert any(YAML in note for note in notes)
    assert ground.initiatives().task("M1", "still possible").seqs


@pytest.mark.parametrize("name", BAD_YAML)
def test_a_new_initiative_does_not_begin_beside_a_yaml_that_cannot_be_read(ground, name):
    ground.write(YAML, BAD_YAML[name])
    before = everything(ground)
    assert refused(ground.begin).code == "bad_file"
    assert {k: v for k, v in everything(ground).items() if k in before} == before
    assert not os.path.exists(ground.path(RECORD))


@pytest.mark.parametrize(
    ("values", "line", "why"),
    [
        ({"status": "done"}, 4, "status must be one of"),
        ({"M2": "half"}, 8, "progress.M2 must be one of"),
        ({"milestone": "M9"}, 3, "milestone must be one of the milestones"),
    ],
)
def test_a_newer_yaml_whose_values_make_no_sense_is_refused_with_its_line(
    ground, values, line, why
):
    ground.begin()
    ground.initiatives().start("M1")
    ground.later(2)
    ground.edit_yaml(at=ground.now, **values)
    error = refused(lambda: ground.initiatives().sync())
    assert (error.code, error.details["line"]) == ("bad_file", line)
    assert why in error.message
    assert ground.one()["current_milestone"] == "M1"


def test_a_page_of_two_megabytes_is_refused_and_the_rest_goes_on(ground):
    ground.begin()
    ground.initiatives().start("M1")
    ground.write(ground.readme, "## M1: Map\n" + "- [ ] a\n" * 260_000)
    error = refused(lambda: ground.initiatives().sync(source="files"))
    assert (error.code, error.details["path"]) == ("bad_file", ground.readme)
    noted = ground.initiatives().complete("M1")
    assert ground.one()["current_milestone"] == "M2"
    assert any(ground.readme in note for note in noted.notes)
    assert any(ground.readme in note for note in ground.initiatives().show()[1])


def test_a_page_of_two_megabytes_cannot_be_recovered_from(ground):
    ground.write(ground.readme, "x\n" * 1_000_000)
    before = everything(ground)
    assert refused(lambda: ground.initiatives().recover()).code == "bad_file"
    assert everything(ground) == before


@pytest.mark.parametrize(
    ("name", "milestones", "why"),
    [
        ("Tidy", ["M2: b", "M1: a"], "M1 stands behind M2"),
        ("Tidy", ["M1", "M10", "M9"], "M9 stands behind M10"),
        ("Tidy", ["M1: a", "M1: b"], "has milestone M1 twice"),
        ("Tidy", ["M1: a", "M2", "m2: b"], "has milestone M2 twice"),
        ("Tidy", [": a"], "id that is one word"),
        ("Tidy", [], "needs milestones"),
        ("", ["M1"], "name"),
        ("a\nb", ["M1"], "one line"),
    ],
)
def test_an_initiative_that_makes_no_sense_is_not_created(ground, name, milestones, why):
    assert why in refused(lambda: ground.initiatives().create(name, milestones)).message
    assert ground.types() == []
    assert not os.path.exists(ground.path("documentation"))


def test_two_of_the_same_name_are_one_too_many(ground):
    ground.begin()
    for name in ("Tidy billing", "tidy  Billing!", "TIDY-BILLING"):
        error = refused(lambda name=name: ground.initiatives().create(name, ["M1"]))
        assert error.code == "already"
        assert "Tidy billing exists already" in error.message
        assert error.hint == "holdfast initiative use 'Tidy billing'"
    ground.initiatives().create("Größe", ["M1"])
    ground.initiatives().create("Grösse", ["M1"])
    ground.initiatives().create("日本", ["M1"])
    ground.initiatives().create("中国", ["M1"])
    assert len(ground.initiatives().all()["all"]) == 5


@pytest.mark.parametrize("text", ["## M2: b\n\n## M1: a\n", "## M1: a\n\n## M1: b\n"])
def test_pages_out_of_order_or_with_one_twice_are_refused(ground, text):
    ground.write(f"{TOP}/tidy/README.md", text)
    error = refused(lambda: ground.initiatives().recover())
    assert (error.code, error.details["line"]) == ("bad_file", 3)
    assert ground.types() == []


def test_a_folder_that_is_a_link_to_outside_is_refused(ground, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "README.md").write_text("# Theirs\n\n## M1: a\n")
    os.makedirs(ground.path(TOP))
    os.symlink(outside, ground.path(f"{TOP}/tidy-billing"))
    for change in (
        lambda: ground.begin(files=True),
        lambda: ground.initiatives().recover("tidy-billing"),
        lambda: ground.initiatives().recover(),
    ):
        assert refused(change).code == "outside"
    assert ground.types() == []
    assert sorted(os.listdir(outside)) == ["README.md"]
    os.makedirs(os.path.join(os.fsencode(ground.path(TOP)), b"\xff"))
    ground.write(f"{TOP}/good/README.md", "## M1: a\n")
    assert ground.initiatives().show()[0]["recoverable"] == ["good", "tidy-billing"]
    ground.initiatives().recover("good")
    assert ground.one()["name"] == "good"


def test_a_folder_in_the_place_of_the_yaml_is_refused(ground):
    os.makedirs(ground.path(f"{TOP}/tidy-billing/{YAML}"))
    assert refused(ground.begin).code == "in_the_way"
    assert ground.types() == []


@pytest.mark.parametrize("key", ["../../../src", "a/b", "..", "UP", ""])
def test_a_record_cannot_lead_its_files_elsewhere(ground, key):
    ground.begin()
    document = ground.record()
    document["_holdfast"]["rest"]["key"] = key
    document["status"] = "in_progress"
    ground.write(RECORD, json.dumps(document))
    ground.initiatives().resume()
    assert list(ground.initiatives().all()["all"]) == ["tidy-billing"]


def test_files_that_cannot_be_written_are_noted_and_made_up_for(ground):
    ground.begin()
    os.remove(ground.path(ground.yaml))
    os.rename(ground.path(ground.folder), ground.path("kept"))
    ground.write(ground.folder, "a file where the folder should be")
    noted = ground.initiatives().start("M1")
    assert any("holdfast initiative sync" in note for note in noted.notes)
    assert ground.one()["status"] == "in_progress"
    with pytest.raises(Fault) as failed:
        ground.initiatives().sync()
    assert failed.value.code == "not_written"
    assert ground.yaml in failed.value.message
    os.remove(ground.path(ground.folder))
    ground.initiatives().sync()
    assert "status: in_progress" in ground.text(ground.yaml)


def in_the_way(ground, place, kind):
    """Something at a place that is no page, or none that may be read."""
    if kind == "a pipe":
        os.mkfifo(ground.path(place))
    elif kind == "a link to itself":
        os.symlink(os.path.basename(place), ground.path(place))
    elif kind == "a link to outside":
        os.symlink("/etc/hostname", ground.path(place))
    else:
        ground.write(place, "x\n" * 600_000)


ODD_PAGES = ["a pipe", "a link to itself", "a link to outside", "too large"]


@pytest.mark.parametrize("kind", ODD_PAGES)
def test_a_page_that_cannot_be_used_is_named_and_the_others_are_ticked(ground, kind):
    ground.begin(files=True)
    ground.initiatives().start("M1")
    place = f"{ground.folder}/notes.md"
    in_the_way(ground, place, kind)
    noted = ground.initiatives().complete("M1")
    assert any(note.startswith(place) for note in noted.notes)
    assert "- [x] M1: Map\n" in ground.text(ground.readme)
    fields, notes = ground.initiatives().show()
    assert fields["pages"] == [ground.readme]
    assert any(note.startswith(place) for note in notes)
    with pytest.raises(HoldfastError) as refused:
        ground.initiatives().sync(source="files")
    assert place in refused.value.message


def test_a_folder_whose_name_looks_like_a_page_is_in_nobodys_way(ground):
    ground.begin(files=True)
    os.makedirs(ground.path(f"{ground.folder}/old.md"))
    ground.initiatives().start("M1")
    assert not ground.initiatives().complete("M1").notes


@pytest.mark.parametrize("kind", ["a pipe", "a link to itself", "a link to outside"])
def test_a_task_is_acknowledged_beside_a_yaml_that_cannot_be_read(ground, kind):
    ground.begin()
    ground.initiatives().start("M1")
    os.remove(ground.path(ground.yaml))
    in_the_way(ground, ground.yaml, kind)
    noted = ground.initiatives().task("M1", "list readers")
    assert any(note.startswith(ground.yaml) for note in noted.notes)
    assert ground.one()["milestones"][0]["tasks"] == [{"text": "list readers", "done": False}]
    before = ground.types()
    with pytest.raises(HoldfastError) as refused:
        ground.initiatives().complete("M1")
    assert ground.yaml in refused.value.message
    assert ground.types() == before
    assert ground.initiatives().show()[0]["initiative"]["name"] == "Tidy billing"

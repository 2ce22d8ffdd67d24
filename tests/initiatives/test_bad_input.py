"""What cannot be used is left as it is, and named with its place and the next step.

The record never waits for it.
"""

import json
import os

import pytest

from holdfast import Fault, HoldfastError, Refused
from support.initiative_shop import RECORD, TOP, YAML

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


def everything(shop):
    """Every file of the workspace but what only Holdfast reads."""
    found = {}
    for folder, _, names in os.walk(shop.root):
        for name in names:
            path = os.path.join(folder, name)
            if not name.endswith((".lock", "-wal", "-shm")) and name != "lock":
                with open(path, "rb") as file:
                    found[os.path.relpath(path, shop.root)] = file.read()
    return found


def refusal_of(change):
    with pytest.raises(Refused) as caught:
        change()
    assert caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("name", BAD_YAML)
def test_a_broken_yaml_never_holds_back_l1_and_its_line_is_named(shop, name):
    shop.begin(files=True)
    shop.initiatives().start("M1")
    shop.write(shop.yaml, BAD_YAML[name])
    error = refusal_of(lambda: shop.initiatives().sync())
    assert (error.code, error.details["path"]) == ("bad_file", shop.yaml)
    named = f"{shop.yaml}: line {error.details['line']}: "
    assert error.message.startswith(named)
    for change, status in (
        (lambda: shop.initiatives().task("M1", "List", done=True), "in_progress"),
        (lambda: shop.initiatives().complete("M1"), "in_progress"),
        (lambda: shop.initiatives().block("no key"), "blocked"),
    ):
        notes = change().notes
        assert [note.startswith(named) for note in notes] == [True]
        assert notes[0].endswith(f"of {shop.yaml}, then holdfast initiative sync")
        assert shop.record()["status"] == status
        assert shop.read(shop.yaml) == BAD_YAML[name]
    assert shop.record()["progress"]["M1"] == "completed"
    assert "- [x] M1: Map" in shop.text(shop.readme)
    fields, notes = shop.initiatives().show()
    assert (fields["initiative"]["status"], fields["agreement"]) == ("blocked", "disagree")
    assert any(note.startswith(named) for note in notes)
    shop.write(shop.yaml, "mine: kept\n")
    assert shop.initiatives().sync().agreement == "agree"
    assert "status: blocked" in shop.text(shop.yaml)
    assert "mine: kept" in shop.text(shop.yaml)


@pytest.mark.parametrize("name", BAD_YAML)
def test_a_new_initiative_begins_beside_a_broken_yaml_and_leaves_that_alone(shop, name):
    shop.write(YAML, BAD_YAML[name])
    noted = shop.initiatives().create("Tidy billing", ["M1: Map"], files=True)
    assert any(note.startswith(f"{YAML}: line ") for note in noted.notes)
    assert shop.record()["name"] == "Tidy billing"
    assert shop.read(YAML) == BAD_YAML[name]
    assert os.path.exists(shop.path(shop.readme))


@pytest.mark.parametrize(
    ("values", "line", "why"),
    [
        ({"status": "done"}, 4, "status must be one of"),
        ({"M2": "half"}, 8, "progress.M2 must be one of"),
        ({"milestone": "M9"}, 3, "milestone must be one of the milestones"),
    ],
)
def test_a_newer_yaml_whose_values_make_no_sense_is_refused_with_its_line(shop, values, line, why):
    shop.begin()
    shop.initiatives().start("M1")
    shop.later(2)
    shop.edit_yaml(at=shop.now, **values)
    error = refusal_of(lambda: shop.initiatives().sync())
    assert (error.code, error.details["line"]) == ("bad_file", line)
    assert why in error.message
    assert shop.current()["current_milestone"] == "M1"
    # A change goes on, and writes nothing over what a person has to mend.
    written = shop.text(shop.yaml)
    assert any(why in note for note in shop.initiatives().complete("M1").notes)
    assert (shop.record()["currentMilestone"], shop.text(shop.yaml)) == ("M2", written)


def test_a_page_of_two_megabytes_is_refused_and_the_rest_goes_on(shop):
    shop.begin()
    shop.initiatives().start("M1")
    shop.write(shop.readme, "## M1: Map\n" + "- [ ] a\n" * 260_000)
    error = refusal_of(lambda: shop.initiatives().sync(source="files"))
    assert (error.code, error.details["path"]) == ("bad_file", shop.readme)
    noted = shop.initiatives().complete("M1")
    assert shop.current()["current_milestone"] == "M2"
    assert any(shop.readme in note for note in noted.notes)
    assert any(shop.readme in note for note in shop.initiatives().show()[1])


def test_a_page_of_two_megabytes_cannot_be_recovered_from(shop):
    shop.write(shop.readme, "x\n" * 1_000_000)
    before = everything(shop)
    assert refusal_of(lambda: shop.initiatives().recover()).code == "bad_file"
    assert everything(shop) == before


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
def test_an_initiative_that_makes_no_sense_is_not_created(shop, name, milestones, why):
    assert why in refusal_of(lambda: shop.initiatives().create(name, milestones)).message
    assert shop.types() == []
    assert not os.path.exists(shop.path("documentation"))


def test_two_of_the_same_name_are_one_too_many(shop):
    shop.begin()
    for name in ("Tidy billing", "tidy  Billing!", "TIDY-BILLING"):
        error = refusal_of(lambda name=name: shop.initiatives().create(name, ["M1"]))
        assert error.code == "already"
        assert "Tidy billing exists already" in error.message
        assert error.hint == "holdfast initiative use 'Tidy billing'"
    shop.initiatives().create("Größe", ["M1"])
    shop.initiatives().create("Grösse", ["M1"])
    shop.initiatives().create("日本", ["M1"])
    shop.initiatives().create("中国", ["M1"])
    assert len(shop.initiatives().all()["all"]) == 5


@pytest.mark.parametrize("text", ["## M2: b\n\n## M1: a\n", "## M1: a\n\n## M1: b\n"])
def test_pages_out_of_order_or_with_one_twice_are_refused(shop, text):
    shop.write(f"{TOP}/tidy/README.md", text)
    error = refusal_of(lambda: shop.initiatives().recover())
    assert (error.code, error.details["line"]) == ("bad_file", 3)
    assert shop.types() == []


def test_a_folder_that_is_a_link_to_outside_is_refused(shop, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "README.md").write_text("# Theirs\n\n## M1: a\n")
    os.makedirs(shop.path(TOP))
    os.symlink(outside, shop.path(f"{TOP}/tidy-billing"))
    for change in (
        lambda: shop.initiatives().recover("tidy-billing"),
        lambda: shop.initiatives().recover(),
    ):
        assert refusal_of(change).code == "outside"
    assert shop.types() == []
    noted = shop.initiatives().create("Tidy billing", ["M1"], files=True)
    assert any("leads out of the workspace" in note for note in noted.notes)
    assert (outside / "README.md").read_text() == "# Theirs\n\n## M1: a\n"
    assert sorted(os.listdir(outside)) == ["README.md"]
    os.makedirs(os.path.join(os.fsencode(shop.path(TOP)), b"\xff"))
    shop.write(f"{TOP}/good/README.md", "## M1: a\n")
    assert shop.initiatives().show()[0]["recoverable"] == ["good"]
    shop.initiatives().recover("good")
    assert shop.current()["name"] == "good"


def test_a_folder_in_the_place_of_the_yaml_is_named_and_holds_nothing_back(shop):
    os.makedirs(shop.path(f"{TOP}/tidy-billing/{YAML}"))
    noted = shop.initiatives().create("Tidy billing", ["M1"])
    assert any(note.startswith(f"{shop.yaml} is not a file") for note in noted.notes)
    assert refusal_of(lambda: shop.initiatives().sync()).code == "in_the_way"
    assert shop.record()["name"] == "Tidy billing"


@pytest.mark.parametrize("key", ["../../../src", "a/b", "..", "UP", ""])
def test_a_record_cannot_lead_its_files_elsewhere(shop, key):
    shop.begin()
    document = shop.record()
    document["_holdfast"]["rest"]["key"] = key
    document["status"] = "in_progress"
    shop.write(RECORD, json.dumps(document))
    shop.initiatives().resume()
    assert list(shop.initiatives().all()["all"]) == ["tidy-billing"]


def test_files_that_cannot_be_written_are_noted_and_made_up_for(shop):
    shop.begin()
    os.remove(shop.path(shop.yaml))
    os.rename(shop.path(shop.folder), shop.path("kept"))
    shop.write(shop.folder, "a file where the folder should be")
    noted = shop.initiatives().start("M1")
    assert any("holdfast initiative sync" in note for note in noted.notes)
    assert shop.current()["status"] == "in_progress"
    with pytest.raises(Fault) as failed:
        shop.initiatives().sync()
    assert failed.value.code == "not_written"
    assert shop.yaml in failed.value.message
    os.remove(shop.path(shop.folder))
    shop.initiatives().sync()
    assert "status: in_progress" in shop.text(shop.yaml)


def in_the_way(shop, place, kind):
    """Something at a place that is no page, or none that may be read."""
    if kind == "a pipe":
        os.mkfifo(shop.path(place))
    elif kind == "a link to itself":
        os.symlink(os.path.basename(place), shop.path(place))
    elif kind == "a link to outside":
        os.symlink("/etc/hostname", shop.path(place))
    else:
        shop.write(place, "x\n" * 600_000)


ODD_PAGES = ["a pipe", "a link to itself", "a link to outside", "too large"]


@pytest.mark.parametrize("kind", ODD_PAGES)
def test_a_page_that_cannot_be_used_is_named_and_the_others_are_ticked(shop, kind):
    shop.begin(files=True)
    shop.initiatives().start("M1")
    place = f"{shop.folder}/notes.md"
    in_the_way(shop, place, kind)
    noted = shop.initiatives().complete("M1")
    assert any(note.startswith(place) for note in noted.notes)
    assert "- [x] M1: Map\n" in shop.text(shop.readme)
    fields, notes = shop.initiatives().show()
    assert fields["pages"] == [shop.readme]
    assert any(note.startswith(place) for note in notes)
    with pytest.raises(HoldfastError) as refused:
        shop.initiatives().sync(source="files")
    assert place in refused.value.message


def test_a_folder_whose_name_looks_like_a_page_is_in_nobodys_way(shop):
    shop.begin(files=True)
    os.makedirs(shop.path(f"{shop.folder}/old.md"))
    shop.initiatives().start("M1")
    assert not shop.initiatives().complete("M1").notes


@pytest.mark.parametrize("kind", ["a pipe", "a link to itself", "a link to outside"])
def test_a_task_is_acknowledged_beside_a_yaml_that_cannot_be_read(shop, kind):
    shop.begin()
    shop.initiatives().start("M1")
    os.remove(shop.path(shop.yaml))
    in_the_way(shop, shop.yaml, kind)
    noted = shop.initiatives().task("M1", "list readers")
    assert any(note.startswith(shop.yaml) for note in noted.notes)
    assert shop.current()["milestones"][0]["tasks"] == [{"text": "list readers", "done": False}]
    with pytest.raises(HoldfastError) as refused:
        shop.initiatives().sync()
    assert shop.yaml in refused.value.message
    shop.initiatives().start("M2")
    assert shop.record()["currentMilestone"] == "M2"
    assert shop.initiatives().show()[0]["initiative"]["name"] == "Tidy billing"

"""Folders that people wrote by hand, as they are: each becomes an initiative again."""

import os
import shutil

import pytest

from holdfast import Refused
from initiatives.ground import RECORD, TOP

HEADINGS = """\
# Move the warehouse

Some words about it.

## M1: Count the shelves

- [x] walk through
- [x] write down
  - [x] also the cellar

## M2: Rent the hall

- [x] ask three owners
- [ ] sign
    - [ ] with a lawyer

## M3: Move

## Notes

- [ ] nobody's task
"""
LISTED = """\
Warehouse
=========

* [x] **M1**: Count
* [ ] **M2**: Rent
  * [x] ask
  * [ ] sign

```
- [x] M3: only an example
```
"""
CRLF = """\
# Lager

## Milestone 1 — Zählen

1. [X] alles

## Milestone 2 — Größe

1. [ ] messen
""".replace("\n", "\r\n")
README_ONLY = "# Split pages\n\nSee the pages beside this one.\n"
PAGES = {
    "README.md": README_ONLY,
    "M1-map.md": "# Mapping\n\n- [x] readers\n- [x] writers\n",
    "M2-move.md": "# M2: Move it\n\n- [ ] all\n",
    "M10/README.md": "# Later\n\n- [ ] rest\n",
}
IN_CODE = """\
# Nested

## M1: One

> - [ ] quoted, not a task

- outer
  - middle
    - [x] deep

~~~md
- [ ] in code
~~~

## M2: Two
"""


def milestones(ground):
    return [
        (each["id"], each["title"], each["status"], [(t["text"], t["done"]) for t in each["tasks"]])
        for each in ground.one()["milestones"]
    ]


FOLDERS = {
    "headings with nested boxes": (
        {"README.md": HEADINGS},
        "Move the warehouse",
        [
            (
                "M1",
                "Count the shelves",
                "completed",
                [("walk through", True), ("write down", True), ("also the cellar", True)],
            ),
            (
                "M2",
                "Rent the hall",
                "in_progress",
                [("ask three owners", True), ("sign", False), ("with a lawyer", False)],
            ),
            ("M3", "Move", "pending", []),
        ],
    ),
    "a list of boxes, and an example in code": (
        {"README.md": LISTED},
        "Warehouse",
        [
            ("M1", "Count", "completed", []),
            ("M2", "Rent", "in_progress", [("ask", True), ("sign", False)]),
        ],
    ),
    "line ends of another system": (
        {"README.md": CRLF},
        "Lager",
        [
            ("M1", "Zählen", "completed", [("alles", True)]),
            ("M2", "Größe", "in_progress", [("messen", False)]),
        ],
    ),
    "several pages": (
        PAGES,
        "Split pages",
        [
            ("M1", "", "completed", [("readers", True), ("writers", True)]),
            ("M2", "Move it", "in_progress", [("all", False)]),
            ("M10", "", "pending", [("rest", False)]),
        ],
    ),
    "boxes deep inside, in quotes and in code": (
        {"README.md": IN_CODE},
        "Nested",
        [("M1", "One", "completed", [("deep", True)]), ("M2", "Two", "in_progress", [])],
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_people_wrote_is_an_initiative_again(ground, name):
    pages, called, expected = FOLDERS[name]
    before = {f"{TOP}/found-here/{page}": text.encode() for page, text in pages.items()}
    for place, raw in before.items():
        ground.write(place, raw)
    fields, _ = ground.initiatives().show()
    assert (fields["initiative"], fields["recoverable"]) == (None, ["found-here"])
    assert not os.path.exists(ground.path(".claude"))
    ground.initiatives().recover()
    assert ground.one()["name"] == called
    assert milestones(ground) == expected
    assert ground.record()["name"] == called
    assert {place: ground.read(place) for place in before} == before
    ground.folder = f"{TOP}/found-here"
    assert f"milestone: {ground.one()['current_milestone']}" in ground.text(ground.yaml)
    assert ground.keeper().verify().ok
    assert ground.types() == ["initiative_recovered"]


def test_what_boxes_cannot_say_comes_from_the_yaml_beside_them(ground):
    ground.write(f"{TOP}/tidy/README.md", "# Tidy\n\n## M1: a\n- [x] one\n## M2: b\n## M3: c\n")
    ground.write(
        f"{TOP}/tidy/WORKFLOW-STATUS.yaml",
        "initiative: Tidy\nmilestone: M3\nstatus: blocked\nteam: x\nupdated: 2026-01-01\n",
    )
    ground.initiatives().recover()
    assert (ground.one()["status"], ground.one()["current_milestone"]) == ("blocked", "M3")
    assert "team: x\n" in ground.text(f"{TOP}/tidy/WORKFLOW-STATUS.yaml")


def test_what_is_going_on_is_known_from_the_yaml_and_what_is_done_from_the_boxes(ground):
    ground.begin(files=True, milestones=("M1: Map", "plan: Plan it", "ship"))
    ground.initiatives().start("M1")
    ground.initiatives().task("plan", "ask", done=False)
    ground.initiatives().complete("M1")
    before = ground.one()
    ground.replace(
        ground.yaml, ("M1: completed", "M1: blocked"), ("ship: pending", "ship: blocked")
    )
    shutil.rmtree(ground.path(".claude"))
    ground.initiatives().recover()
    assert ground.progress() == {"M1": "completed", "plan": "in_progress", "ship": "blocked"}
    for name in ("id", "title", "tasks"):
        assert [each[name] for each in ground.one()["milestones"]] == [
            each[name] for each in before["milestones"]
        ]
    assert ground.one()["current_milestone"] == "plan"


def test_a_folder_with_nothing_but_a_yaml_is_enough(ground):
    ground.write(
        f"{TOP}/tidy/WORKFLOW-STATUS.yaml",
        "initiative: Tidy up\nmilestone: M2\nstatus: in_progress\n"
        "progress: {M1: completed, M2: in_progress}\n",
    )
    ground.initiatives().recover()
    assert ground.progress() == {"M1": "completed", "M2": "in_progress"}
    assert ground.one()["name"] == "Tidy up"


def test_of_several_folders_one_has_to_be_named(ground):
    for name in ("one", "two", "Three Words"):
        ground.write(f"{TOP}/{name}/README.md", f"# The {name}\n\n## M1: a\n")
    with pytest.raises(Refused) as refused:
        ground.initiatives().recover()
    assert refused.value.code == "ambiguous"
    assert refused.value.details["candidates"] == ["Three Words", "one", "two"]
    ground.initiatives().recover("two")
    assert ground.one()["name"] == "The two"
    ground.initiatives().recover("Three Words")
    ground.initiatives().start("M1")
    assert "status: in_progress" in ground.text(f"{TOP}/Three Words/WORKFLOW-STATUS.yaml")
    ground.initiatives().recover()
    assert [one["name"] for one in ground.initiatives().all()["all"].values()] == [
        "The two",
        "The Three Words",
        "The one",
    ]
    with pytest.raises(Refused, match="no folder with milestones"):
        ground.initiatives().recover()


def test_one_that_is_known_needs_no_recovery(ground):
    ground.begin(files=True)
    with pytest.raises(Refused) as refused:
        ground.initiatives().recover("tidy-billing")
    assert refused.value.code == "already"
    assert refused.value.hint == "holdfast initiative sync --from files"


def test_where_there_is_nothing_the_next_step_is_to_create_one(ground):
    with pytest.raises(Refused) as refused:
        ground.initiatives().recover()
    assert refused.value.code == "not_found"
    assert refused.value.hint.startswith("holdfast initiative create")
    ground.write(f"{TOP}/empty/README.md", "# Nothing\n\nYet.\n")
    with pytest.raises(Refused, match="tells of no milestone"):
        ground.initiatives().recover()
    assert not os.path.exists(ground.path(RECORD))


# The files against a healthy record


def test_pages_that_disagree_are_named_and_taken_when_that_is_asked_for(ground):
    ground.begin(files=True)
    ground.initiatives().start("M1")
    ground.initiatives().task("M1", "list readers")
    ground.replace(ground.readme, ("- [ ] M1", "- [x] M1"), ("- [ ] list", "- [x] list"))
    ground.replace(ground.readme, ("## M2: Move\n", "## M2: Move\n\n- [x] pack\n"))
    before = ground.read(ground.readme)
    fields, notes = ground.initiatives().show()
    assert fields["disagreements"] == [
        "M1 is in_progress in initiative.json and completed in the files",
        "M1: 1 open tasks are ticked in the files",
    ]
    assert any("holdfast initiative sync --from files" in note for note in notes)
    assert ground.progress()["M1"] == "in_progress"
    assert any("sync --from files" in note for note in ground.initiatives().sync().notes)
    assert any("sync --from files" in note for note in ground.initiatives().resume_noting())
    noted = ground.initiatives().sync(source="files")
    said = "Sync corrected: initiative.json updated to match milestone files"
    assert said in noted.notes
    assert ground.progress() == {"M1": "completed", "M2": "in_progress", "M3": "pending"}
    assert ground.one()["milestones"][1]["tasks"] == [{"text": "pack", "done": True}]
    assert ground.read(ground.readme) == before
    assert "milestone: M2" in ground.text(ground.yaml)
    lost = ground.events()[-1]["data"]["lost"]["initiative.json"]
    assert lost["progress"]["M1"] == "in_progress"
    assert ground.initiatives().show()[0]["disagreements"] == []


def test_what_is_done_is_ticked_on_a_page_that_somebody_wrote(ground):
    ground.begin()
    page = "# Ours\r\n\r\n## M1: Map\r\n\r\n* [ ] list readers  <!-- soon -->\r\n* [ ] other\r\n"
    ground.write(ground.readme, page)
    ground.initiatives().start("M1")
    ground.initiatives().task("M1", "list readers  <!-- soon -->", done=True)
    ground.initiatives().task("M1", "something else", done=True)
    assert ground.text(ground.readme) == page.replace("[ ] list", "[x] list")


def test_a_page_of_ours_that_was_thrown_away_is_written_again(ground):
    ground.begin(files=True)
    os.remove(ground.path(ground.readme))
    ground.initiatives().sync()
    assert ground.text(ground.readme).startswith("# Tidy billing\n\n- [ ] M1: Map\n")


def test_without_the_wish_for_files_no_page_is_written(ground):
    ground.begin()
    ground.initiatives().start("M1")
    assert os.listdir(ground.path(ground.folder)) == ["WORKFLOW-STATUS.yaml"]

"""Folders that people wrote by hand, as they are: each becomes an initiative again."""

import os
import shutil

import pytest

from holdfast import Refused
from support.initiative_shop import RECORD, TOP

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


def milestones(shop):
    return [
        (each["id"], each["title"], each["status"], [(t["text"], t["done"]) for t in each["tasks"]])
        for each in shop.current()["milestones"]
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
def test_a_folder_that_people_wrote_is_an_initiative_again(shop, name):
    pages, called, expected = FOLDERS[name]
    before = {f"{TOP}/found-here/{page}": text.encode() for page, text in pages.items()}
    for place, raw in before.items():
        shop.write(place, raw)
    fields, _ = shop.initiatives().show()
    assert (fields["initiative"], fields["recoverable"]) == (None, ["found-here"])
    assert not os.path.exists(shop.path(".claude"))
    shop.initiatives().recover()
    assert shop.current()["name"] == called
    assert milestones(shop) == expected
    assert shop.record()["name"] == called
    assert {place: shop.read(place) for place in before} == before
    shop.folder = f"{TOP}/found-here"
    assert f"milestone: {shop.current()['current_milestone']}" in shop.text(shop.yaml)
    assert shop.keeper().verify().ok
    assert shop.types() == ["initiative_recovered"]


def test_what_boxes_cannot_say_comes_from_the_yaml_beside_them(shop):
    shop.write(f"{TOP}/tidy/README.md", "# Tidy\n\n## M1: a\n- [x] one\n## M2: b\n## M3: c\n")
    shop.write(
        f"{TOP}/tidy/WORKFLOW-STATUS.yaml",
        "initiative: Tidy\nmilestone: M3\nstatus: blocked\nteam: x\nupdated: 2026-01-01\n",
    )
    shop.initiatives().recover()
    assert (shop.current()["status"], shop.current()["current_milestone"]) == ("blocked", "M3")
    assert "team: x\n" in shop.text(f"{TOP}/tidy/WORKFLOW-STATUS.yaml")


def test_what_is_going_on_is_known_from_the_yaml_and_what_is_done_from_the_boxes(shop):
    shop.begin(files=True, milestones=("M1: Map", "plan: Plan it", "ship"))
    shop.initiatives().start("M1")
    shop.initiatives().task("plan", "ask", done=False)
    shop.initiatives().complete("M1")
    before = shop.current()
    shop.replace(shop.yaml, ("M1: completed", "M1: blocked"), ("ship: pending", "ship: blocked"))
    shutil.rmtree(shop.path(".claude"))
    shop.initiatives().recover()
    assert shop.progress() == {"M1": "completed", "plan": "in_progress", "ship": "blocked"}
    for name in ("id", "title", "tasks"):
        assert [each[name] for each in shop.current()["milestones"]] == [
            each[name] for each in before["milestones"]
        ]
    assert shop.current()["current_milestone"] == "plan"


def test_a_folder_with_nothing_but_a_yaml_is_enough(shop):
    shop.write(
        f"{TOP}/tidy/WORKFLOW-STATUS.yaml",
        "initiative: Tidy up\nmilestone: M2\nstatus: in_progress\n"
        "progress: {M1: completed, M2: in_progress}\n",
    )
    shop.initiatives().recover()
    assert shop.progress() == {"M1": "completed", "M2": "in_progress"}
    assert shop.current()["name"] == "Tidy up"


def test_of_several_folders_one_has_to_be_named(shop):
    for name in ("one", "two", "Three Words"):
        shop.write(f"{TOP}/{name}/README.md", f"# The {name}\n\n## M1: a\n")
    with pytest.raises(Refused) as refused:
        shop.initiatives().recover()
    assert refused.value.code == "ambiguous"
    assert refused.value.details["candidates"] == ["Three Words", "one", "two"]
    shop.initiatives().recover("two")
    assert shop.current()["name"] == "The two"
    shop.initiatives().recover("Three Words")
    shop.initiatives().start("M1")
    assert "status: in_progress" in shop.text(f"{TOP}/Three Words/WORKFLOW-STATUS.yaml")
    shop.initiatives().recover()
    assert [one["name"] for one in shop.initiatives().all()["all"].values()] == [
        "The two",
        "The Three Words",
        "The one",
    ]
    with pytest.raises(Refused, match="no folder with milestones"):
        shop.initiatives().recover()


def test_one_that_is_known_needs_no_recovery(shop):
    shop.begin(files=True)
    with pytest.raises(Refused) as refused:
        shop.initiatives().recover("tidy-billing")
    assert refused.value.code == "already"
    assert refused.value.hint == "holdfast initiative sync --from files"


def test_where_there_is_nothing_the_next_step_is_to_create_one(shop):
    with pytest.raises(Refused) as refused:
        shop.initiatives().recover()
    assert refused.value.code == "not_found"
    assert refused.value.hint.startswith("holdfast initiative create")
    shop.write(f"{TOP}/empty/README.md", "# Nothing\n\nYet.\n")
    with pytest.raises(Refused, match="tells of no milestone"):
        shop.initiatives().recover()
    assert not os.path.exists(shop.path(RECORD))


# The files against a healthy record


def test_pages_that_disagree_are_named_and_taken_when_that_is_asked_for(shop):
    shop.begin(files=True)
    shop.initiatives().start("M1")
    shop.initiatives().task("M1", "list readers")
    shop.replace(shop.readme, ("- [ ] M1", "- [x] M1"), ("- [ ] list", "- [x] list"))
    shop.replace(shop.readme, ("## M2: Move\n", "## M2: Move\n\n- [x] pack\n"))
    before = shop.read(shop.readme)
    fields, notes = shop.initiatives().show()
    assert fields["disagreements"] == [
        "M1 is in_progress in initiative.json and completed in the files",
        "M1: 1 open tasks are ticked in the files",
    ]
    assert any("holdfast initiative sync --from files" in note for note in notes)
    assert shop.progress()["M1"] == "in_progress"
    assert any("sync --from files" in note for note in shop.initiatives().sync().notes)
    assert any("sync --from files" in note for note in shop.initiatives().resume_noting())
    noted = shop.initiatives().sync(source="files")
    said = "Sync corrected: initiative.json updated to match milestone files"
    assert said in noted.notes
    assert shop.progress() == {"M1": "completed", "M2": "in_progress", "M3": "pending"}
    assert shop.current()["milestones"][1]["tasks"] == [{"text": "pack", "done": True}]
    assert shop.read(shop.readme) == before
    assert "milestone: M2" in shop.text(shop.yaml)
    lost = shop.events()[-1]["data"]["lost"]["initiative.json"]
    assert lost["progress"]["M1"] == "in_progress"
    assert shop.initiatives().show()[0]["disagreements"] == []


def test_what_is_done_is_ticked_on_a_page_that_somebody_wrote(shop):
    shop.begin()
    page = "# Ours\r\n\r\n## M1: Map\r\n\r\n* [ ] list readers  <!-- soon -->\r\n* [ ] other\r\n"
    shop.write(shop.readme, page)
    shop.initiatives().start("M1")
    shop.initiatives().task("M1", "list readers  <!-- soon -->", done=True)
    shop.initiatives().task("M1", "something else", done=True)
    assert shop.text(shop.readme) == page.replace("[ ] list", "[x] list")


def test_a_page_of_ours_that_was_thrown_away_is_written_again(shop):
    shop.begin(files=True)
    os.remove(shop.path(shop.readme))
    shop.initiatives().sync()
    assert shop.text(shop.readme).startswith("# Tidy billing\n\n- [ ] M1: Map\n")


def test_without_the_wish_for_files_no_page_is_written(shop):
    shop.begin()
    shop.initiatives().start("M1")
    assert os.listdir(shop.path(shop.folder)) == ["WORKFLOW-STATUS.yaml"]

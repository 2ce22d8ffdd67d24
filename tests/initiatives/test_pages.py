"""Milestone pages: what counts as a milestone and as a task, and that a tick changes one letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.initiative_sources import apply_pages, disagreements, initiative_from_pages
from holdfast.initiatives import BadFile
from holdfast.initiatives.pages import MilestonePage, merge_pages, new_page

AT = "2026-04-01T10:00:00.000Z"


def milestones_of(*texts, known=()):
    pages = [MilestonePage(text.encode(), "", known) for text in texts]
    return {one.id: (one.title, one.status, one.tasks) for one in merge_pages(pages)[1]}


def test_headings_with_boxes_below():
    text = "# Tidy\n\n## M1: Map\n\n- [x] one\n- [X] two\n\n## M2: Move\n- [x] three\n* [ ] four\n"
    assert milestones_of(f"{text}\n## M3: Ship\n\nText.\n") == {
        "M1": ("Map", "completed", {"one": True, "two": True}),
        "M2": ("Move", "in_progress", {"three": True, "four": False}),
        "M3": ("Ship", "pending", {}),
    }


def test_a_list_of_milestones_as_boxes_with_tasks_inside():
    text = (
        "- [x] M1: Map\n  - [ ] left over\n- [ ] **M2** - Move\n    - [x] a\n      - [ ] deeper\n"
        "1. [ ] M3: Ship\n"
    )
    assert milestones_of(text) == {
        "M1": ("Map", "completed", {"left over": False}),
        "M2": ("Move", "in_progress", {"a": True, "deeper": False}),
        "M3": ("Ship", "pending", {}),
    }


@pytest.mark.parametrize(
    "heading",
    [
        "## M1: Map",
        "# M1 - Map",
        "### Milestone 1: Map",
        "## **M1**: Map",
        "## M1. Map ##",
        "## [ ] M1: Map",
        "##   M1 — Map",
        "## milestone M1) Map",
        "M1: Map\n-------",
        "M1: Map\n=",
    ],
)
def test_headings_as_people_write_them(heading):
    assert milestones_of(f"{heading}\n- [ ] one\n") == {"M1": ("Map", "pending", {"one": False})}


@pytest.mark.parametrize(
    "text",
    [
        "## M1 and M2\n- [ ] one",
        "## Notes: M1\n- [ ] one",
        "```\n## M1: Map\n- [x] one\n```",
        "    ## M1: Map",
        "~~~md\n- [ ] M1: Map\n~~~\n",
        "<!--\n## M1: Map\n-->\n",
        "> ## M1: Map\n> - [ ] one\n",
        "M1: Map\n- [x] a plain task",
        "## Map5: x\n",
    ],
)
def test_what_only_looks_like_a_milestone_is_none(text):
    assert milestones_of(text) == {}


def test_an_id_alone_is_a_milestone_where_it_is_known():
    text = "- [x] plan\n- [ ] ship\n\n## plan\n\n- [x] one\n\n## ship it\n\n- [ ] nobody's\n"
    assert milestones_of(text, known=("plan", "ship")) == {
        "plan": ("", "completed", {"one": True}),
        "ship": ("", "pending", {}),
    }
    assert milestones_of(text) == {}


def test_boxes_in_code_and_in_other_sections_are_nobodys_tasks():
    text = (
        "## M1: Map\n\n- [x] one\n\n```md\n- [ ] not this\n```\n\n    - [ ] nor this\n\n"
        "### Details\n\n- [ ] two\n\n## Notes\n\n- [ ] nor that\n"
    )
    assert milestones_of(text) == {"M1": ("Map", "in_progress", {"one": True, "two": False})}


def test_a_box_of_its_own_counts_more_than_its_tasks():
    text = "- [ ] M1: Map\n- [x] M2: Move\n\n## M1: Map\n- [x] one\n## M2: Move\n- [ ] two\n"
    assert [one[1] for one in milestones_of(text).values()] == ["in_progress", "completed"]
    assert milestones_of("## M1: Map ✅\n- [ ] one\n")["M1"][1] == "completed"


def test_ids_of_ones_own_are_known_by_the_initiative():
    assert milestones_of("## alpha: First\n- [x] one\n", known=["alpha"]) == {
        "alpha": ("First", "completed", {"one": True})
    }


def test_the_name_of_a_page_tells_whose_boxes_it_has():
    page = MilestonePage(b"# Anything\n\n- [x] one\n", "M2-move.md")
    assert [(spot.id, spot.tasks) for spot in page.milestones.values()] == [
        ("M2", [("one", True, 2)])
    ]
    assert MilestonePage(b"# Nothing here\n", "M2-move.md").milestones == {}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("## M1: a\n\n## M1: b\n", 3, "M1 stands on line 1 already"),
        ("- [ ] M1: a\n- [ ] M1: b\n", 2, "M1 stands on line 1 already"),
        ("## M2: a\n## M1: b\n", 2, "M1 stands behind M2"),
        ("- [ ] M1: a\n- [ ] M10: b\n- [ ] M2: c\n", 3, "M2 stands behind M10"),
        ("x\n" * 25_000, 20_000, "lines"),
        ("x" * 2_000_000, 1, "bytes"),
    ],
)
def test_a_page_that_makes_no_sense_is_named_by_its_line(text, line, why):
    with pytest.raises(BadFile) as bad:
        MilestonePage(text.encode())
    assert bad.value.line == line
    assert why in bad.value.why


# Ticking


def one_with(**milestones):
    found = []
    for name, (status, tasks) in milestones.items():
        listed = [{"text": text, "done": done} for text, done in tasks.items()]
        found.append({"id": name, "title": "", "status": status, "tasks": listed})
    return {**initiative_from_pages("Tidy", [], AT), "milestones": found}


def test_a_tick_changes_one_letter_and_no_other_byte():
    raw = (
        b"\xef\xbb\xbf# Tidy \xff\r\n\r\n* [ ]  M1: Map  \r\n\r\n## M1: Map\r\n\r\n"
        b"- [ ] one [ ] left\t\r\n- [ ] two\r\n  ```\r\n  - [ ] one\r\n  ```\r\n\r\nno end"
    )
    one = one_with(M1=("completed", {"one [ ] left": True, "two": False}))
    after = MilestonePage(raw).ticked(one, is_own=False)
    expected = raw.replace(b"* [ ]  M1", b"* [x]  M1").replace(b"- [ ] one [", b"- [x] one [")
    assert after == expected
    assert MilestonePage(after).ticked(one, is_own=False) == after


def test_a_box_that_somebody_ticked_is_never_taken_back():
    raw = b"## M1: Map\n- [x] one\n"
    one = one_with(M1=("in_progress", {"one": False}))
    assert MilestonePage(raw).ticked(one, is_own=True) == raw
    assert disagreements(one, merge_pages([MilestonePage(raw)])[1]) == [
        "M1 is in_progress in initiative.json and completed in the files",
        "M1: 1 open tasks are ticked in the files",
    ]


def test_only_a_page_of_ours_is_given_new_tasks():
    one = one_with(M1=("in_progress", {"one": True, "two": False}), M2=("pending", {}))
    raw = new_page(one_with(M1=("pending", {}), M2=("pending", {})))
    assert MilestonePage(raw).ticked(one, is_own=False) == raw
    after = MilestonePage(raw).ticked(one, is_own=True)
    assert b"## M1\n\n- [x] one\n- [ ] two\n\n## M2\n" in after
    assert MilestonePage(after).ticked(one, is_own=True) == after


TEXT = st.text("ab *_`#[]x-:\n\r\t>", max_size=20)
BITS = st.lists(
    st.one_of(
        TEXT,
        st.sampled_from(
            ["## M1: Map\n", "- [ ] one\n", "  - [x] two\n", "```\n", "- [ ] M2: b\n", "\n", "> "]
        ),
    ),
    max_size=15,
).map("".join)


@given(BITS)
def test_any_page_is_read_or_refused_and_a_tick_only_ticks(text):
    raw = text.encode()
    try:
        page = MilestonePage(raw)
    except BadFile:
        return
    found = merge_pages([page])[1]
    one = initiative_from_pages("Tidy", found, AT)
    done = apply_pages(one, found)
    assert page.ticked(one, is_own=False) == raw
    everything = [
        {
            **each,
            "status": "completed",
            "tasks": [{**task, "done": True} for task in each["tasks"]],
        }
        for each in done["milestones"]
    ]
    after = page.ticked({**done, "milestones": everything}, is_own=False)
    changed = [pair for pair in zip(raw, after, strict=True) if pair[0] != pair[1]]
    assert set(changed) <= {(ord(" "), ord("x"))}
    again = merge_pages([MilestonePage(after)])[1]
    assert all(each.is_completed or not each.tasks for each in again)


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(st.text("abc ", min_size=1), st.booleans()))),
        min_size=1,
        max_size=5,
    )
)
def test_a_page_of_ours_tells_the_initiative_again(drawn):
    milestones = {}
    for number, (is_completed, tasks) in enumerate(drawn, 1):
        named = {" ".join(text.split()): done for text, done in tasks if text.strip()}
        milestones[f"M{number}"] = ("completed" if is_completed else "pending", named)
    one = one_with(**milestones)
    found = merge_pages([MilestonePage(new_page(one))])[1]
    assert [each.is_completed for each in found] == [done for done, _ in drawn]
    assert [each.tasks for each in found] == [tasks for _, tasks in milestones.values()]

"""What stands in a loop's folder and is not believed: records that claim, links that lead away."""

import os

import pytest

from holdfast import Loops
from support.loop_files import HOME, finish, open_loop, units_of

pytestmark = pytest.mark.promise(10)

STATE = f"{HOME}/user-auth/state.json"


@pytest.mark.parametrize("status", ["confirming", "verifying", "done"])
@pytest.mark.parametrize("name", ["T1", "T2", "T9"])
def test_no_edit_of_the_record_brings_a_unit_nearer_to_done(shop, status, name):
    loops = open_loop(shop, "T1: One", "T2: Two")
    before = loops.iterate("T1", did="some", remaining="more").state

    def claim(document):
        document["tasks"].setdefault(name, {})
        document["tasks"][name] |= {"status": status, "verification_passed": True}

    shop.edit(STATE, claim)
    receipt = loops.settle()
    assert receipt.state == before
    (note,) = receipt.notes
    assert f"tasks.{name}.status gets there by loop iterate, loop confirm and loop" in note
    assert len(shop.beside(STATE)) == 1
    finish(loops, "T1")
    shop.edit(STATE, lambda document: document["tasks"]["T1"].update(status="in_progress"))
    assert units_of(loops.show())["T1"]["status"] == "in_progress"


@pytest.mark.parametrize("depends", [["T2"], ["T1"], ["T9"]])
def test_an_edit_of_the_record_makes_no_unit_wait_for_ever(shop, depends):
    loops = open_loop(shop, "T1: One", "T2: Two")
    loops.plan(None, "T2", depends=["T1"])
    shop.edit(STATE, lambda document: document["tasks"]["T1"].update(depends=depends))
    receipt = loops.show()
    assert "tasks.T1.depends must name other units, and go in no circle" in receipt.notes[0]
    assert "depends" not in units_of(receipt)["T1"]
    assert loops.next()[0]["unit"] == "T1"


@pytest.mark.parametrize("name", ["progress", "tasks", "context", "guardrails", "brief"])
def test_a_page_that_is_a_link_is_neither_read_nor_written_through(shop, name):
    loops = open_loop(shop, "T1: One")
    page, outside = f"{HOME}/user-auth/{name}.md", shop.path("..", "outside.md")
    told = b"- [ ] **T7**: theirs\n\n## Theirs\n\n- **When**: always\n"
    shop.write("../outside.md", told)
    os.remove(shop.path(page))
    os.symlink(outside, shop.path(page))
    receipt = loops.iterate("T1", did="some", remaining="more")
    assert shop.read("../outside.md") == told
    assert os.readlink(shop.path(page)) == outside
    assert any(f"{name}.md is not a file that can be read" in note for note in receipt.notes)
    assert list(units_of(receipt)) == ["T1"]
    assert receipt.state.get("guardrails", []) == []


def test_lessons_are_not_read_through_a_link_out_of_the_workspace(shop):
    lesson = b"# Guardrails\n\n## Theirs\n- **When**: log in\n- **Problem**: p\n"
    shop.write("../away/theirs-20260101/guardrails.md", lesson)
    os.makedirs(shop.path(HOME))
    os.symlink(shop.path("..", "away"), shop.path(HOME, "archive"))
    loops = Loops(shop.keeper())
    (note,) = loops.new("one", outcome="log in").notes
    assert "leads out of the workspace" in note
    os.remove(shop.path(HOME, "archive"))
    os.mkdir(shop.path(HOME, "archive"))
    os.symlink(shop.path("..", "away/theirs-20260101"), shop.path(HOME, "archive/theirs-20260101"))
    assert loops.new("two", outcome="log in").notes == []


ASKS = {
    "plan": lambda loops, slug: loops.plan(slug, "T2: Two"),
    "guardrail": lambda loops, slug: loops.guardrail(
        when="a", problem="b", solution="c", slug=slug
    ),
    "verify": lambda loops, slug: loops.run_verification("T1", ["test", "-d", "."], slug=slug),
    "settle": lambda loops, slug: loops.settle(slug),
}


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("slug", [None, "user-auth"])
def test_what_was_noticed_on_the_way_is_told_once(shop, ask, slug):
    loops = open_loop(shop, "T1: One")
    loops.iterate("T1", did="all", signal="T1_DONE")
    loops.confirm("T1")
    shop.edit(STATE, lambda document: document.update(task="Another title"))
    notes = ASKS[ask](loops, slug).notes
    assert [note for note in notes if "adopted an edit" in note] == [
        f"adopted an edit of {STATE}: title"
    ]

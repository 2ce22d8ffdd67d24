"""A plan that changes: milestones that are added, and an initiative that is renamed."""

import os

import pytest

from holdfast import Refused
from holdfast.initiatives.pages import MilestonePage, new_page
from support.initiative_shop import RECORD


def ids(shop):
    return [milestone["id"] for milestone in shop.current()["milestones"]]


def refusal_of(change):
    with pytest.raises(Refused) as caught:
        change()
    assert caught.value.hint
    return caught.value


def test_an_added_milestone_stands_where_its_number_belongs(shop):
    shop.begin(milestones=("M1: Map", "M3: Ship", "later: Perhaps"))
    shop.initiatives().start("M1")
    shop.initiatives().add_milestone("M2: Move")
    shop.initiatives().add_milestone("M10")
    shop.initiatives().add_milestone("last: Rest")
    assert ids(shop) == ["M1", "M2", "M3", "later", "M10", "last"]
    assert shop.current()["current_milestone"] == "M1"
    assert list(shop.record()["progress"]) == ids(shop)
    assert [line.split(":")[0].strip() for line in shop.text(shop.yaml).splitlines()[-6:]] == [
        "M1", "M3", "later", "M2", "M10", "last",
    ]  # fmt: skip


def test_a_milestone_that_is_added_behind_the_last_completed_one_is_current(shop):
    shop.begin(milestones=("M1: Map",))
    shop.initiatives().start("M1")
    shop.initiatives().complete("M1")
    shop.initiatives().add_milestone("M2: Move")
    assert (shop.current()["status"], shop.current()["current_milestone"]) == ("in_progress", "M2")
    assert shop.initiatives().next_step().words == ["initiative", "start", "M2"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("M1: again", "already"), ("m1", "already"), ("", "invalid"), (": x", "invalid"),
     ("two words: x", "invalid"), ("M9: \ud800", "invalid"), ("M\x01: a", "invalid")],
)  # fmt: skip
def test_a_milestone_that_makes_no_sense_is_not_added(shop, text, code):
    shop.begin()
    before = shop.types()
    assert refusal_of(lambda: shop.initiatives().add_milestone(text)).code == code
    assert shop.types() == before


@pytest.mark.parametrize("change", ["add_milestone", "rename"])
def test_completed_and_archived_are_final_for_the_plan_too(shop, change):
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().finish(force=True, reason="sold")
    refusal = refusal_of(lambda: getattr(shop.initiatives(), change)("M4"))
    assert (refusal.code, "completed for good" in refusal.message) == ("ended", True)


def test_the_same_request_adds_one_milestone(shop):
    shop.begin()
    shop.initiatives().add_milestone("M4: Rest", id="once")
    shop.initiatives().add_milestone("M4: Rest", id="once")
    assert ids(shop) == ["M1", "M2", "M3", "M4"]


def test_a_page_of_ours_gets_an_added_milestone_at_its_place(shop):
    shop.begin(files=True, milestones=("M1: Map", "M3: Ship"))
    shop.initiatives().start("M1")
    shop.initiatives().task("M1", "List")
    shop.initiatives().add_milestone("M2: Move")
    shop.initiatives().add_milestone("M4")
    assert shop.read(shop.readme) == new_page(shop.current())


def test_a_page_that_people_wrote_gets_no_milestone(shop):
    text = "# Tidy billing\n\n## M1: Map\n\n- [ ] List\n"
    shop.write(shop.readme, text)
    shop.begin(milestones=("M1: Map",))
    shop.initiatives().add_milestone("M2: Move")
    assert shop.text(shop.readme) == text


def test_a_milestone_that_another_page_has_is_not_added_to_ours(shop):
    shop.begin(files=True, milestones=("M1: Map",))
    shop.write(f"{shop.folder}/M2.md", "## M2: Move\n\n- [ ] one\n")
    shop.initiatives().add_milestone("M2: Move")
    assert "M2" not in shop.text(shop.readme)


def test_an_id_that_a_page_cannot_hold_is_never_added_twice(shop):
    shop.begin(files=True, milestones=("M1: Map",))
    shop.edit_record(progress={"M1": "pending", "a:b": "pending", "*c*": "pending"})
    shop.initiatives().start("M1")
    once = shop.read(shop.readme)
    shop.initiatives().task("M1", "List")
    shop.initiatives().block("no key")
    assert shop.read(shop.readme).count(b"\n## ") == once.count(b"\n## ")


def test_a_page_of_ours_that_ends_in_open_code_does_not_grow(shop):
    shop.begin(files=True, milestones=("M1: Map",))
    shop.write(shop.readme, shop.text(shop.readme).replace("- [ ] M1: Map\n\n", "") + "\n```\n")
    once = shop.read(shop.readme)
    shop.initiatives().add_milestone("M2: Move")
    shop.initiatives().start("M1")
    assert shop.read(shop.readme) == once


def test_text_around_the_sections_of_our_page_stays_where_it_is(shop):
    shop.begin(files=True, milestones=("M1: Map", "M3: Ship"))
    page = shop.text(shop.readme)
    words = "Said by people, below the boxes.\n"
    page = page.replace("\n## M1", f"{words}\n## M1").replace("\n## M3", f"\n{words}\n## M3")
    shop.write(shop.readme, page + f"\n{words}")
    shop.initiatives().add_milestone("M2: Move")
    shop.initiatives().add_milestone("M4: Rest")
    after = shop.text(shop.readme)
    assert after.count(words) == 3
    told = MilestonePage(after.encode())
    assert list(told.milestones) == ["M1", "M2", "M3", "M4"]
    left = [line for line in after.splitlines() if "M2" not in line and "M4" not in line]
    assert [line for line in left if line] == [line for line in shop_lines(page, words) if line]


def shop_lines(page, words):
    return [*page.splitlines(), *words.splitlines()]


def test_a_renamed_initiative_is_found_by_both_names_and_shares_neither(shop):
    shop.begin()
    shop.initiatives().create("Other", ["M1"])
    assert refusal_of(lambda: shop.initiatives().rename("Tidy billing")).code == "already"
    assert refusal_of(lambda: shop.initiatives().rename("tidy  BILLING")).code == "already"
    assert refusal_of(lambda: shop.initiatives().rename("Other")).code == "already"
    assert refusal_of(lambda: shop.initiatives().rename("a\nb")).code == "invalid"
    assert refusal_of(lambda: shop.initiatives().rename(" ")).code == "invalid"
    shop.initiatives().use("Tidy billing")
    shop.initiatives().rename("Clean books")
    shop.initiatives().use("other")
    for name in ("Tidy billing", "Clean books", "tidy-billing"):
        shop.initiatives().use(name)
        assert shop.current()["name"] == "Clean books"
        shop.initiatives().use("Other")
    assert refusal_of(lambda: shop.initiatives().rename("Tidy billing")).code == "already"
    error = refusal_of(lambda: shop.initiatives().create("Tidy billing", ["M1"]))
    assert "Clean books, once called Tidy billing, exists already" in error.message
    shop.initiatives().use("Clean books")
    shop.initiatives().rename("Tidy billing")
    assert shop.current()["former"] == ["Clean books"]


def test_a_renamed_initiative_comes_back_from_its_record_alone(shop):
    shop.begin(files=True)
    shop.initiatives().rename("Clean books")
    os.remove(shop.path(".claude/holdfast/ledger.db"))
    assert shop.initiatives().all()["all"].keys() == {"tidy-billing"}
    shop.initiatives().start("M1")
    current = shop.current()
    assert (current["name"], current["former"]) == ("Clean books", ["Tidy billing"])


def test_a_yaml_and_a_record_with_the_former_name_are_about_the_same_initiative(shop):
    shop.begin()
    shop.initiatives().start("M1")
    yaml = shop.text(shop.yaml)
    shop.initiatives().rename("Clean books")
    shop.write(shop.yaml, yaml.replace("milestone: M1", "milestone: M2"))
    shop.edit_yaml(at=shop.later())
    shop.initiatives().sync()
    assert shop.current()["current_milestone"] == "M2"
    assert "initiative: Clean books" in shop.text(shop.yaml)
    shop.edit_record(is_theirs=True, name="Tidy billing", status="blocked")
    state = shop.initiatives().all()
    assert list(state["all"]) == ["tidy-billing"]
    assert shop.document(RECORD)["status"] == "blocked"

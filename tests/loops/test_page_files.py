"""Loops with their files: what stands where, what people add, and what they change by hand."""

import json
import os
import re

import pytest

from holdfast import Loops, Refused
from holdfast.loops import pages
from support.loop_files import HOME, PROGRESS, TASKS, edit, finish, open_loop, units_of

MEMORY = ".git/holdfast/pages/user-auth.json"


def test_a_development_loop_has_these_files(shop):
    open_loop(shop, "T1: Add the model", outcome="People can log in", domain="feature")
    found = sorted(path for path in shop.files() if path.startswith(HOME))
    names = ("brief.md", "context.md", "guardrails.md", "progress.md", "state.json", "tasks.md")
    assert found == [f"{HOME}/user-auth/{name}" for name in names]
    document = shop.document(f"{HOME}/user-auth/state.json")
    assert list(document)[:8] == [
        "task", "slug", "mode", "domain", "created", "updated", "phase", "tasks",
    ]  # fmt: skip
    assert document["tasks"] == {"T1": {"status": "pending", "max_iterations": 5}}
    assert (document["phase"], document["commits"]) == ("plan", [])


def test_a_knowledge_loop_calls_its_units_phases_and_has_places_for_sources_and_outputs(shop):
    loops = open_loop(shop, "R1: Sources", slug="survey", mode="knowledge", domain="research")
    loops.iterate("R1", did="found two", remaining="a third")
    document = shop.document(f"{HOME}/survey/state.json")
    assert (document["current_phase"], document["current_iteration"]) == ("R1", 1)
    assert set(document["phases"]) == {"R1"}
    assert "tasks" not in document
    assert {"sources", "outputs", "plan.md"} <= set(os.listdir(shop.path(HOME, "survey")))
    with pytest.raises(Refused, match="does not begin with a unit from R1"):
        loops.plan("survey", "T1: no phase")


def test_the_phase_follows_by_itself_through_the_whole_life(shop):
    loops = open_loop(shop)
    phases = [loops.show().state["phase"]]
    acts = (
        lambda: loops.plan(None, "T1: One"),
        lambda: loops.iterate("T1", did="some", remaining="more"),
        lambda: loops.iterate("T1", did="all", signal="T1_DONE"),
        lambda: loops.confirm("T1"),
        lambda: loops.verify("T1", failed="no test"),
        lambda: finish(loops, "T1"),
        lambda: loops.plan(None, "T2: Two"),
        lambda: finish(loops, "T2"),
        loops.archive,
    )
    phases += [act().state["phase"] for act in acts]
    assert phases == [
        "discover", "plan", "execute", "verify", "verify", "execute", "deliver", "execute",
        "deliver", "complete",
    ]  # fmt: skip


def test_what_people_write_on_pages_stays_there(shop):
    loops = open_loop(shop, "T1: Add the model", "T2: Log in")
    notes = "\n## Zettel\n\n- [ ] ask Kim\n\tdon't forget\n"
    for name in ("tasks.md", "brief.md", "guardrails.md", "progress.md"):
        path = f"{HOME}/user-auth/{name}"
        shop.write(path, shop.read(path) + f"\n{notes}".encode())
    finish(loops, "T1")
    loops.guardrail(when="w", problem="p", solution="s")
    for name in ("tasks.md", "brief.md", "guardrails.md", "progress.md"):
        assert notes in shop.read(f"{HOME}/user-auth/{name}").decode()
    assert "- [x] **T1**" in shop.read(TASKS).decode()


def test_units_that_people_write_and_change_are_taken_in(shop):
    loops = open_loop(shop, "T1: Add the model", "T2: Log in")
    third = "- [ ] **T3**: Log out\n  - Max iterations: 3\n  - Depends: T1, T2\n\n"
    edit(
        shop, TASKS, ("Add the model", "Add the user"), ("criteria of T2", "all tests pass"),
        ("## Notes", f"{third}## Notes"),
    )  # fmt: skip
    receipt = loops.settle()
    found = units_of(receipt)
    assert found["T1"]["description"] == "Add the user"
    assert found["T2"]["criteria"] == "all tests pass"
    assert (found["T3"]["max_iterations"], found["T3"]["depends"]) == (3, ["T1", "T2"])
    assert any("taken in: T3" in note for note in receipt.notes)
    assert loops.show().notes == []
    assert "**Total:** 3 tasks" in shop.read(TASKS).decode()


def test_a_look_shows_what_the_next_change_takes_in_and_changes_nothing(shop):
    loops = open_loop(shop, "T1: Add the model", "T2: Log in")
    loops.iterate("T1", did="some", remaining="more")
    edit(shop, TASKS, ("Add the model", "Add the user"), ("- [ ] **T2**", "- [ ] **T3**"))
    lesson = "\n## Names\n- **When**: naming\n- **Problem**: too short\n- **Solution**: words\n"
    path = f"{HOME}/user-auth/guardrails.md"
    shop.write(path, shop.read(path) + lesson.encode())
    shop.write(PROGRESS, b"# Progress Log\n")
    files, events = shop.files(without=()), len(shop.keeper().log())
    for _ in range(2):
        receipt = Loops(shop.keeper()).show()
        assert [task["id"] for task in receipt.state["tasks"]] == ["T1", "T2", "T3"]
        assert units_of(receipt)["T1"]["description"] == "Add the user"
        assert [one["name"] for one in receipt.state["guardrails"]] == ["Names"]
        assert receipt.notes[:2] == [
            "guardrails.md: taken in by the next change: Names",
            "tasks.md: taken in by the next change: T1 (description)",
        ]
        added, removed = receipt.notes[2:]
        assert added.startswith("tasks.md: taken in by the next change: T3 (")
        assert removed.startswith("tasks.md: T2 was taken out and comes back with the next change")
        Loops(shop.keeper()).next()
        Loops(shop.keeper()).all()
    assert (shop.files(without=()), len(shop.keeper().log())) == (files, events)
    before = receipt.state
    after = Loops(shop.keeper()).iterate("T1", did="more", remaining="a bit").state
    assert (after["guardrails"], units_of(receipt)["T3"]) == (
        before["guardrails"],
        after["tasks"][2],
    )
    assert shop.read(PROGRESS).count(b"## T1 - Iteration") == 2


def test_who_waits_for_whom_can_be_turned_around_by_hand(shop):
    loops = open_loop(shop, "T1: One", "T2: Two")
    loops.plan(None, "T2", depends=["T1"])
    text = shop.read(TASKS).decode()
    first, second = text.index("Depends: none"), text.index("Depends: T1")
    turned = (
        f"{text[:first]}Depends: T2{text[first + 13 : second]}Depends: none{text[second + 11 :]}"
    )
    shop.write(TASKS, turned.replace("T1 → T2 (sequential)", "T2 → T1 (sequential)").encode())
    found = units_of(loops.show())
    assert (found["T1"]["depends"], found["T2"].get("depends")) == (["T2"], None)


def test_a_box_ticked_by_hand_is_no_confirmation_and_no_verification(shop):
    loops = open_loop(shop, "T1: One")
    edit(shop, TASKS, ("- [ ] **T1**", "- [x] **T1**"))
    receipt = loops.settle()
    assert units_of(receipt)["T1"]["status"] == "pending"
    assert any("ticked by hand" in note for note in receipt.notes)
    assert "- [ ] **T1**" in shop.read(TASKS).decode()


def test_an_edit_that_is_refused_stays_on_the_page_and_is_said(shop):
    loops = open_loop(shop, "T1: One", "T2: Two")
    finish(loops, "T1")
    edit(shop, TASKS, ("criteria of T1", "something else"))
    for look in (loops.show, loops.settle, loops.show):
        receipt = look()
        assert any("T1 of user-auth: it is completed" in note for note in receipt.notes)
        assert "something else" in shop.read(TASKS).decode()
    loops.iterate("T2", did="some", remaining="more")
    assert "1 in progress" in shop.read(TASKS).decode()


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("- [ ] **T2**", "- [ ] **T1**", "T1 stands on line"),
        ("**T2**", "**two**", "'two' is not a name for a unit"),
        (
            "Max iterations: 5\n  - Depends: T1",
            "Max iterations: lots\n  - Depends: T1",
            "is not a number",
        ),
        ("Depends: none", "Depends: T2", "would wait for itself"),
        ("Depends: T1", "Depends: T7", "'T7', which is not a unit of this page"),
        ("- [ ] **T1**: One", "- [ ] One", "a unit is written"),
    ],
)
def test_nonsense_on_the_page_is_said_with_its_line_and_nothing_is_lost(shop, before, after, why):
    loops = open_loop(shop, "T1: One", "T2: Two")
    loops.plan(None, "T2", depends=["T1"])
    was = units_of(loops.show())
    text = edit(shop, TASKS, (before, after))
    receipt = loops.settle()
    assert any(re.search(rf"tasks.md, line \d+: .*{re.escape(why)}", n) for n in receipt.notes)
    now = units_of(receipt)
    assert {name: now[name] for name in was} == was
    kept = [line for line in text.splitlines() if not line.startswith("**")]
    assert all(line in shop.read(TASKS).decode() for line in kept)


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe\x00", b"{" * 10_000, b"#" * 5_000_000, b"- [ ]\n"]
)
def test_a_page_that_is_none_any_more_stops_nothing(shop, data):
    loops = open_loop(shop, "T1: One")
    shop.write(TASKS, data)
    assert units_of(loops.iterate("T1", did="some", remaining="more"))["T1"]["iterations_used"] == 1
    assert data in shop.read(TASKS)


def test_a_page_that_a_killed_process_left_behind_is_no_edit(shop):
    loops = open_loop(shop, "T1: One")
    page = shop.read(TASKS)
    loops.plan(None, "T1: Another title", criteria="another")
    memory = MEMORY
    assert b"Another title" in shop.read(memory)
    # As if the process had died after the commit: page and memory are those from before.
    shop.write(TASKS, page)
    shop.write(memory, shop.read(memory).replace(b"Another title", b"One").replace(
        b'"another"', b'"criteria of T1"'))  # fmt: skip
    found = units_of(loops.settle())["T1"]
    assert (found["description"], found["criteria"]) == ("Another title", "another")
    assert b"Another title" in shop.read(TASKS)


def test_a_unit_taken_out_of_the_page_comes_back_and_it_is_said(shop):
    loops = open_loop(shop, "T1: One", "T2: Two")
    text = shop.read(TASKS).decode()
    shop.write(TASKS, (text[: text.index("- [ ] **T2**")] + "## Notes\n").encode())
    receipt = loops.settle()
    assert any("T2 was taken out and is back" in note for note in receipt.notes)
    assert "**T2**: Two" in shop.read(TASKS).decode()


def test_lessons_that_people_write_are_told_to_every_iteration(shop):
    loops = open_loop(shop, "T1: One")
    loops.guardrail(when="dates", problem="local time", solution="UTC")
    path = f"{HOME}/user-auth/guardrails.md"
    page = shop.read(path).decode().replace("- **Solution**: UTC", "- **Solution**: UTC, always")
    page += "\n## Names\n- **When**: naming\n- **Problem**: too short\n- **Solution**: words\n"
    shop.write(path, page.encode())
    turn, notes = loops.next()
    assert [lesson["solution"] for lesson in turn["guardrails"]] == ["UTC, always", "words"]
    assert "guardrails.md: taken in by the next change: Names" in notes
    assert "guardrails.md: taken in: Names" in loops.settle().notes
    assert loops.next()[1] == []
    assert "GUARDRAILS:\n- when dates: local time; instead: UTC, always" in shop.keeper().briefing()


def test_two_lessons_of_one_name_are_both_kept(shop):
    loops = open_loop(shop, "T1: One")
    for solution in ("a", "b"):
        loops.guardrail(when="w", problem="p", solution=solution, name="Same")
    found = loops.next()[0]["guardrails"]
    assert [(one["name"], one["solution"]) for one in found] == [("Same", "a"), ("Same (2)", "b")]


def test_the_context_is_refused_with_its_count_when_it_is_too_long(shop):
    loops = Loops(shop.keeper())
    with pytest.raises(Refused, match=r"would have 2\d\d words, and must have fewer than 200"):
        loops.new("long", outcome="word " * 199)
    assert not os.path.exists(shop.path(HOME))
    loops.new("long", outcome="word " * 150)
    path = f"{HOME}/long/context.md"
    shop.write(path, shop.read(path) + b"more " * 60)
    assert any(re.search(r"context.md has 2\d\d words", note) for note in loops.show().notes)
    with pytest.raises(Refused, match=r"context.md has 2\d\d words"):
        loops.run("long", ["true"])


def test_the_context_tells_of_the_units_until_somebody_makes_it_theirs(shop):
    loops = open_loop(shop, "T1: One")
    path = f"{HOME}/user-auth/context.md"
    assert b"- T1: criteria of T1" in shop.read(path)
    loops.plan(None, "T2: Two")
    assert b"- T2: Two" in shop.read(path)
    shop.write(path, b"# Ours\n")
    loops.plan(None, "T3: Three")
    assert shop.read(path) == b"# Ours\n"


def test_the_context_of_many_units_stays_under_the_limit(shop):
    loops = open_loop(shop)
    for number in range(1, 30):
        loops.plan(None, f"T{number}: one two three four five six seven eight nine ten")
    text = shop.read(f"{HOME}/user-auth/context.md").decode()
    assert len(text.split()) < pages.MAX_CONTEXT_WORDS


def test_an_earlier_entry_is_never_touched_and_a_change_is_noticed(shop):
    loops = open_loop(shop, "T1: One")
    loops.iterate("T1", did="the model", remaining="its tests")
    loops.iterate("T1", did="the tests", remaining="the docs")
    edit(shop, PROGRESS, ("the model", "everything"))
    changed = shop.read(PROGRESS)
    receipt = loops.iterate("T1", did="the docs", signal="T1_DONE")
    assert shop.read(PROGRESS).startswith(changed)
    said = [note for note in receipt.notes if "was changed since" in note]
    assert len(said) == 1
    assert "T1 - Iteration 1" in said[0]


def test_an_entry_that_somebody_removed_is_written_again_and_the_state_can_be_rebuilt(shop):
    loops = open_loop(shop, "T1: One")
    loops.iterate("T1", did="the model", remaining="its tests")
    first = shop.read(PROGRESS)
    finish(loops, "T1")
    shop.write(PROGRESS, shop.read(PROGRESS).replace(first[first.index(b"## T1") :], b""))
    receipt = loops.settle()
    assert any("T1 - Iteration 1" in note and "was gone" in note for note in receipt.notes)
    assert shop.read(PROGRESS).count(b"## T1 - Iteration 1") == 1
    assert loops.rebuild("user-auth").notes == ["user-auth: its state, its pages and git agree"]


def test_a_loop_that_ended_makes_room_for_a_new_one_of_its_name(shop):
    open_loop(shop, "T1: One")
    shop.keeper().abandon("no time", workflow="user-auth")
    receipt = Loops(shop.keeper()).new("user-auth", task="Again")
    assert receipt.state["tasks"] == []
    assert "the user-auth that had ended was put into the archive" in receipt.notes
    archived = shop.document(f"{HOME}/archive/user-auth-20260217/state.json")
    assert list(archived["tasks"]) == ["T1"]


def test_one_name_is_one_loop(shop):
    open_loop(shop)
    loops = Loops(shop.keeper())
    with pytest.raises(Refused, match="is the name of a workflow of loop-development"):
        loops.new("user-auth", "knowledge")
    shop.keeper().start("planning", "a move")
    with pytest.raises(Refused, match="is the name of a workflow of planning"):
        loops.new("a-move")
    with pytest.raises(Refused, match="is not a loop but a workflow of planning"):
        loops.show("a-move")


def test_going_on_with_an_active_loop_changes_nothing_of_it(shop):
    loops = open_loop(shop, "T1: One", outcome="first")
    receipt = loops.new("user-auth", outcome="second")
    assert receipt.resumed
    assert receipt.state["context"]["outcome"] == "first"
    assert list(units_of(receipt)) == ["T1"]


def test_a_plan_written_before_the_loop_was_opened_is_its_plan(shop):
    page = "# Mine\n\n## Tasks\n\n- [ ] **T1**: One\n- [ ] **T2**: Two\n  - Depends: T1\n"
    shop.write(TASKS, page.encode())
    receipt = Loops(shop.keeper()).new("user-auth")
    assert list(units_of(receipt)) == ["T1", "T2"]
    assert shop.read(TASKS).decode().startswith("# Mine\n")


def test_lessons_of_archived_loops_are_offered_and_inherited(shop):
    loops = open_loop(shop, "T1: One", domain="feature")
    loops.guardrail(when="parsing dates", problem="local time", solution="UTC")
    loops.guardrail(when="drawing", problem="slow", solution="cache")
    loops.archive()
    offered = loops.new("import", domain="bug", outcome="Dates of the import are right")
    assert [note for note in offered.notes if "lessons that may fit: local time" in note]
    assert "guardrails" not in offered.state
    taken = loops.new("import", inherit=True)
    assert [one["name"] for one in taken.state["guardrails"]] == ["local time"]
    assert taken.state["guardrails"][0]["learned"] == "user-auth-20260217"
    assert loops.new("import", inherit=True).seqs == []
    other = loops.new("report", domain="feature")
    assert any("local time" in note and "slow" in note for note in other.notes)


@pytest.mark.parametrize(
    "changes",
    [
        {"log": 5}, {"log": [1, 2]}, {"log": [1, 2, 3, 4, 5]}, {"log": ["9", "", 0, ""]},
        {"log_seq": "x"}, {"log_seq": 10**30}, {"known": None}, {"known": 5}, {"units": 3},
    ],
)  # fmt: skip
def test_a_damaged_memory_of_the_pages_loses_nothing(shop, changes):
    loops = open_loop(shop, "T1: One")
    loops.iterate("T1", did="one", remaining="more")
    memory = shop.document(MEMORY)
    if "log_seq" in changes:
        memory["log"][2] = changes["log_seq"]
    else:
        memory |= changes
    shop.write(MEMORY, json.dumps(memory).encode())
    state = loops.iterate("T1", did="two", remaining="more")
    assert units_of(state)["T1"]["iterations_used"] == 2
    assert shop.read(PROGRESS).count(b"Iteration") == 2
    assert units_of(loops.rebuild())["T1"]["iterations_used"] == 2
    assert loops.archive().state["status"] == "abandoned"

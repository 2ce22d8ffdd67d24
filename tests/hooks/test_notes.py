"""A workflow that an agent began without Holdfast is found in its notes and kept up with."""

import json
import os

import pytest

from holdfast.adopt import agent_notes

NOTES = """\
# Current Workflow State

Workflow: Shop Pages - Product List
Phase: 4/10 - Texts

@CLAUDE/Pages.md
@docs/products.md
@../../outside.md
"""
PLAN = """\
# Plan 007: Search

**Status**: 🔄 In Progress

## Phase 1: Index ✅
## Phase 2: Query 🔄 In Progress
## Phase 3: Rank

- @docs/search.md
"""


def workflows(client):
    return client.ok("status")["workflows"]


def compacted(client):
    assert client.fire("PreCompact", trigger="auto", custom_instructions=None) is None


def test_notes_are_adopted_as_a_formal_workflow(client):
    client.write("CLAUDE.local.md", NOTES)
    compacted(client)
    (row,) = workflows(client)
    assert (row["title"], row["phase_index"], row["phase_total"]) == (
        "Shop Pages - Product List",
        4,
        10,
    )
    state = client.state(row["id"])
    assert state["phase"] == "Texts"
    assert state["required_reading"] == ["@CLAUDE/Pages.md", "@docs/products.md"]
    folder = f"untracked/workflow-state/{row['id']}"
    (name,) = os.listdir(os.path.join(client.path, folder))
    assert name.startswith(f"state-{row['id']}-")
    record = client.record(f"{folder}/{name}")
    assert record["phase"] == {
        "current": 4,
        "total": 10,
        "name": "Texts",
        "status": "in_progress",
    }
    assert record["workflow_type"] == "custom"
    text = client.briefed()
    assert "✅ Workflow restored: Shop Pages - Product List, Phase 4/10" in text


def test_notes_that_move_on_are_followed_and_never_doubled(client):
    client.write("CLAUDE.local.md", NOTES)
    for _ in range(3):
        compacted(client)
    created = client.state()["created_at"]
    client.write("CLAUDE.local.md", NOTES.replace("4/10 - Texts", "5/10 - Pictures") + "@more.md\n")
    for _ in range(2):
        compacted(client)
        client.briefed()
    (row,) = workflows(client)
    state = client.state()
    assert (row["phase_index"], state["phase"]) == (5, "Pictures")
    assert state["required_reading"][-1] == "@more.md"
    assert state["created_at"] == created
    assert [phase["status"] for phase in state["phases"][:5]] == [*["completed"] * 4, "in_progress"]


def test_what_was_completed_stays_completed(client):
    client.write("CLAUDE.local.md", NOTES)
    compacted(client)
    client.ok("complete", "--force", "--reason", "done")
    compacted(client)
    assert workflows(client) == []


def test_notes_that_begin_anew_after_the_end_are_a_new_run(client):
    client.write("CLAUDE.local.md", NOTES)
    compacted(client)
    (row,) = workflows(client)
    client.ok("complete", "--force", "--reason", "done")
    client.write(
        "CLAUDE.local.md", "# Workflow state\nWorkflow: Shop Pages - Product List\nPhase: 1/6\n"
    )
    for _ in range(2):
        compacted(client)
    (again,) = workflows(client)
    assert (again["id"], again["phase_index"], again["phase_total"]) == (row["id"], 1, 6)
    assert "Phase 1/6" in client.briefed()
    state = client.state()
    assert (state["required_reading"], state["created_at"] > row["created_at"]) == ([], True)
    assert client.types().count("record_adopted") == 2
    client.ok("abandon")
    compacted(client)
    assert workflows(client) == []


@pytest.mark.parametrize(
    "phase", ["4/10 - Texts", "5/10 - Pictures", "10/10 ✅", "Layout", "4/10 ✅"]
)
def test_notes_that_only_go_on_after_the_end_are_not(client, phase):
    client.write("CLAUDE.local.md", NOTES)
    compacted(client)
    client.ok("complete", "--force", "--reason", "done")
    client.write("CLAUDE.local.md", NOTES.replace("4/10 - Texts", phase))
    compacted(client)
    assert workflows(client) == []


def test_an_older_plan_that_git_brings_back_is_no_new_run(client):
    path = "CLAUDE/Plan/007-search/PLAN.md"
    client.write(path, PLAN)
    compacted(client)
    client.ok("complete", "--force", "--reason", "done")
    client.write(path, PLAN.replace(" ✅", "").replace("Query 🔄 In Progress", "Query"))
    compacted(client)
    assert workflows(client) == []


def test_a_plan_in_progress_is_found(client):
    client.write("CLAUDE/Plan/007-search/PLAN.md", PLAN)
    client.write("CLAUDE/Plan/006-old/PLAN.md", PLAN.replace("🔄 In Progress", "✅ Done"))
    compacted(client)
    (row,) = workflows(client)
    state = client.state()
    assert (row["title"], row["phase_index"], row["phase_total"]) == ("Plan 007: Search", 2, 3)
    assert state["phase"] == "Query"
    assert state["required_reading"] == ["@CLAUDE/Plan/007-search/PLAN.md", "@docs/search.md"]
    assert state["context"] == {"plan": "007-search", "plan_number": 7}


def test_several_are_each_found(client):
    client.write("CLAUDE.local.md", NOTES)
    client.write("CLAUDE/Plan/007-search/PLAN.md", PLAN)
    compacted(client)
    assert len(workflows(client)) == 2


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Phase: 4/10 - Texts", (4, 10, "Texts")),
        ("**PHASE:** 2 of 3 - Fixing", (2, 3, "Fixing")),
        ("- phase: 3", (3, 3, "Phase 3")),
        ("phase: Build", (1, 1, "Build")),
        ("Phase: 12/10", (12, 12, "Phase 12")),
        ("Phase: 0/0", (1, 1, "Phase 1")),
        ("Phase: 1/999999999 - x", (1, 200, "x")),
        ("Phase: Phase 4/10 - Texts", (4, 10, "Texts")),
        ("Phase: İstanbul", (1, 1, "İstanbul")),
        ("Phase: 3D models", (1, 1, "3D models")),
        ("Phase: 2/3 - Lists [all]", (2, 3, "Lists [all]")),
        ("**Phase**: `2/3` - Texts", (2, 3, "Texts")),
        ("Phase: 2/3 - Texts -->", (2, 3, "Texts")),
    ],
)
def test_phases_are_read_as_they_are_written(said, found):
    phase = agent_notes.from_notes(f"WORKFLOW STATE\nworkflow: X\n{said}\n")["phase"]
    assert (phase["current"], phase["total"], phase["name"]) == found


@pytest.mark.parametrize(
    "text",
    ["", "Workflow: X\nPhase: 1/2", "workflow state\nphase: 1/2", "WORKFLOW STATE\nworkflow: X"],
)
def test_notes_that_do_not_say_enough_are_left_alone(client, text):
    client.write("CLAUDE.local.md", text)
    compacted(client)
    assert not client.has(".claude")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_notes_of_any_editor_are_read(client, ends):
    text = "\ufeffWorkflow: X\nPhase: 1/2 - A\n<!-- Workflow State -->\n"
    client.write("CLAUDE.local.md", text.replace("\n", ends))
    compacted(client)
    assert [row["title"] for row in workflows(client)] == ["X"]


def test_notes_that_stand_still_undo_nothing(client):
    client.write("CLAUDE.local.md", NOTES)
    compacted(client)
    client.ok("advance")
    client.ok("advance")
    compacted(client)
    assert workflows(client)[0]["phase_index"] == 6
    client.write("CLAUDE.local.md", NOTES.replace("4/10 - Texts", "2/10"))
    compacted(client)
    assert workflows(client)[0]["phase_index"] == 2


def phases_beside(client, notes):
    """A workflow of Holdfast's own in its second phase, and an agent's notes on it."""
    client.ok("start", "custom", "X", "--phase", "Build", "--phase", "Test", "--phase", "Ship")
    client.ok("advance")
    client.write("CLAUDE.local.md", f"# Workflow state\nWorkflow: X\n{notes}\n")
    compacted(client)
    state = client.state()
    return state["phase"], [phase["name"] for phase in state["phases"]]


@pytest.mark.parametrize(
    ("notes", "phase"),
    [
        ("Phase: 1/3 - Build", "Test"),
        ("Phase: Build", "Test"),
        ("Phase: Test", "Test"),
        ("Phase: 2", "Test"),
        ("Phase: 2/3", "Test"),
        ("Phase: 3/3", "Ship"),
        ("Phase: Ship", "Ship"),
    ],
)
def test_what_notes_leave_unsaid_stays(client, notes, phase):
    assert phases_beside(client, notes) == (phase, ["Build", "Test", "Ship"])


def test_a_record_that_the_agent_wrote_itself_is_the_one_that_is_updated(client):
    path = "untracked/workflow-state/shop-pages/state-shop-pages-20251209_143052.json"
    own = {
        "workflow": "Shop Pages - Product List",
        "workflow_type": "custom",
        "phase": {"current": 2, "total": 10, "name": "Layout", "status": "in_progress"},
        "required_reading": ["@CLAUDE/Pages.md"],
        "created_at": "2025-12-09T14:30:52Z",
    }
    client.write(path, json.dumps(own))
    client.write("CLAUDE.local.md", NOTES)
    compacted(client)
    (row,) = workflows(client)
    assert (row["id"], row["phase_index"]) == ("shop-pages", 4)
    record = client.record(path)
    assert record["phase"]["name"] == "Texts"
    assert record["created_at"] == own["created_at"]
    listed = os.listdir(os.path.join(client.path, "untracked/workflow-state"))
    assert sorted(listed) == [".holdfast", "shop-pages"]


def test_plans_with_one_title_are_two_workflows(client):
    plan = "# Search\n🔄 In Progress\nPhase: {}/3\n"
    client.write("CLAUDE/Plan/001-search/PLAN.md", plan.format(1))
    client.write("CLAUDE/Plan/002-search/PLAN.md", plan.format(2))
    for _ in range(3):
        compacted(client)
    found = {row["id"]: row["phase_index"] for row in workflows(client)}
    assert found == {"search": 1, "search-2": 2}
    assert client.types().count("record_edited") == 0


def test_the_newest_of_very_many_plans_is_found(client):
    for number in range(300):
        text = PLAN if number == 299 else "# Old phase\n✅ Done\n"
        client.write(f"CLAUDE/Plan/{number:03}-x/PLAN.md", text)
    compacted(client)
    assert [row["title"] for row in workflows(client)] == ["Plan 007: Search"]


def test_notes_in_two_worktrees_tell_of_two_workflows_and_a_plan_of_one(client):
    client.commit("CLAUDE/Plan/007-search/PLAN.md", PLAN)
    client.write("CLAUDE.local.md", NOTES)
    compacted(client)
    client.git("worktree", "add", "-q", "../linked")
    linked = client.other("two")
    linked.path = client.at("..", "linked").path
    linked.write("CLAUDE.local.md", NOTES.replace("4/10 - Texts", "7/10 - Pictures"))
    linked.write(
        "CLAUDE/Plan/007-search/PLAN.md", PLAN.replace("## Phase 3: Rank", "## Phase 3: 🔄")
    )
    compacted(linked)
    compacted(client)
    found = {row["id"]: (row["worktree"], row["phase_index"]) for row in workflows(client)}
    assert found == {
        "shop-pages-product-list": (".", 4),
        "shop-pages-product-list-2": ("linked", 7),
        "plan-007-search": (".", 2),
    }


@pytest.mark.parametrize(
    "headings",
    [
        "## Phase 1: Index ✅ Completed\n## Phase 2: Query (🔄 In Progress)\n## Phase 3: Rank",
        "## Phase 1: Index ✅\n## Phase 2: Query\n## Phase 3: Rank",
        "## Phase 1: ✅ Index\n## Phase 2: 🔄 Query\n## Phase 3: ⬜ Rank",
        "## Phase 1: Index\n**Status**: ✅ Done\n## Phase 2: Query\nStatus: 🔄\n## Phase 3",
    ],
)
def test_the_phase_of_a_plan_is_found_by_its_marks(headings):
    text = f"# Search\n\nStatus: 🔄 In Progress\n\n{headings}\n"
    phase = agent_notes.from_plan(text, "CLAUDE/Plan/007-search/PLAN.md")["phase"]
    assert (phase["current"], phase["total"], phase["name"]) == (2, 3, "Query")


def test_a_note_that_leads_out_of_the_workspace_is_not_read(client):
    outside = os.path.join(client.path, "..", "notes.md")
    with open(outside, "w") as file:
        file.write(NOTES)
    os.symlink(outside, os.path.join(client.path, "CLAUDE.local.md"))
    compacted(client)
    assert not client.has(".claude")

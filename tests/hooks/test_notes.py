"""A workflow that an agent began without Holdfast is found in its notes and kept up with."""

import os

import pytest

from holdfast import detection

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
    ],
)
def test_phases_are_read_as_they_are_written(said, found):
    phase = detection.from_notes(f"WORKFLOW STATE\nworkflow: X\n{said}\n")["phase"]
    assert (phase["current"], phase["total"], phase["name"]) == found


@pytest.mark.parametrize(
    "text",
    ["", "Workflow: X\nPhase: 1/2", "workflow state\nphase: 1/2", "WORKFLOW STATE\nworkflow: X"],
)
def test_notes_that_do_not_say_enough_are_left_alone(client, text):
    client.write("CLAUDE.local.md", text)
    compacted(client)
    assert not client.has(".claude")


def test_a_note_that_leads_out_of_the_workspace_is_not_read(client):
    outside = os.path.join(client.path, "..", "notes.md")
    with open(outside, "w") as file:
        file.write(NOTES)
    os.symlink(outside, os.path.join(client.path, "CLAUDE.local.md"))
    compacted(client)
    assert not client.has(".claude")

"""A server of one's own in the graph's place: a source that is read third, and breaks ties."""

import json
import os
from pathlib import Path

import pytest

from holdfast import Refused
from support.own_memory import OwnMemory

CORRECTED = "Sync corrected: WORKFLOW-STATUS.yaml updated to match initiative.json"
TAKEN = "Sync corrected: initiative.json updated to match WORKFLOW-STATUS.yaml"


@pytest.fixture
def memory(shop, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    memory = OwnMemory(Path(shop.root), monkeypatch)
    memory.set()
    return memory


def says(memory, *observations):
    entity = {"name": "initiative-checkpoint", "entityType": "InitiativeCheckpoint"}
    held = {"entities": [{**entity, "observations": list(observations)}], "relations": []}
    memory.file.write_text(json.dumps(held))


def test_if_file_state_is_unclear_memory_mcp_is_the_tiebreaker(shop, memory):
    shop.begin()
    shop.initiatives().start("M1")
    says(memory, "initiative: Tidy billing", "milestone: M2", "status: blocked")
    shop.later(2)
    shop.edit_yaml(at=shop.now, status="blocked")
    shop.initiatives().task("M1", "List")
    shop.initiatives().unblock()
    shop.initiatives().block("again")
    assert memory.calls() == []
    shop.edit_yaml(milestone="M2")
    assert TAKEN in shop.initiatives().task("M1", "Ask").notes
    assert shop.current()["current_milestone"] == "M2"
    assert memory.calls().count("search_nodes") == 1
    shop.edit_yaml(milestone="M3")
    assert CORRECTED in shop.initiatives().task("M1", "Tell").notes
    assert shop.current()["current_milestone"] == "M2"


@pytest.mark.parametrize(
    "observations", [["nonsense"], ["initiative: Tidy billing", "milestone: M9"], []]
)
def test_a_server_that_talks_nonsense_lets_the_record_count(shop, memory, observations):
    shop.begin()
    shop.initiatives().start("M1")
    says(memory, *observations)
    shop.edit_yaml(milestone="M2")
    assert CORRECTED in shop.initiatives().sync().notes
    assert shop.current()["current_milestone"] == "M1"


def test_a_server_that_fails_or_is_not_approved_lets_the_record_count(shop, memory):
    shop.begin()
    shop.initiatives().start("M1")
    memory.write({"command": "/nowhere/server"})
    shop.edit_yaml(milestone="M2")
    noted = shop.initiatives().sync()
    assert CORRECTED in noted.notes
    assert any("the server mcp:memory failed" in note for note in noted.notes)
    os.remove(os.path.join(os.environ["HOME"], ".config", "holdfast", "config.toml"))
    shop.edit_yaml(milestone="M2")
    noted = shop.initiatives().sync()
    assert CORRECTED in noted.notes
    assert shop.current()["current_milestone"] == "M1"


def test_where_all_else_is_gone_a_server_has_the_checkpoint(shop, memory):
    says(
        memory,
        "initiative: Tidy billing",
        "milestone: M2",
        "status: in_progress",
        'progress: {"M1": "completed", "M2": "in_progress"}',
        "updated: 2026-03-01T00:00:00Z",
    )
    shop.initiatives().recover()
    assert shop.progress() == {"M1": "completed", "M2": "in_progress"}


def test_a_checkpoint_with_a_value_that_makes_no_sense_is_refused(shop, memory):
    says(memory, "initiative: Tidy billing", 'progress: {"M1": "perhaps"}')
    with pytest.raises(Refused, match=r"the memory graph cannot be used: progress\.M1 "):
        shop.initiatives().recover()


CHECKPOINT = (
    "initiative: Tidy billing",
    "milestone: M2",
    "status: in_progress",
    'progress: {"M1": "completed", "M2": "in_progress"}',
)


def test_session_resume_reads_memory_mcp_third_and_the_newest_source_wins(shop, memory):
    shop.begin()
    shop.initiatives().start("M1")
    shop.later(20)
    says(memory, *CHECKPOINT, f"updated: {shop.now}")
    fields, notes = shop.initiatives().show()
    assert fields["agreement"] == "disagree"
    assert any("the memory graph says M2 in_progress; M1 completed" in note for note in notes)
    assert "Initiative state may be stale — last updated 21 minutes ago" in notes[0]
    assert "initiative.json" in notes[0]
    assert shop.current()["current_milestone"] == "M1"
    initiatives = shop.initiatives()
    initiatives.resume()
    corrected = "updated to match memory graph"
    assert any(note.endswith(corrected) for note in initiatives._store.take_notes())
    assert (shop.record()["currentMilestone"], shop.progress()["M1"]) == ("M2", "completed")
    assert "milestone: M2" in shop.text(shop.yaml)


@pytest.mark.parametrize("is_edited", [False, True])
def test_update_stale_sources_to_match_the_authoritative_one_includes_the_server(
    shop, memory, is_edited
):
    shop.begin()
    shop.initiatives().start("M1")
    if is_edited:
        # The server has every event, and another program wrote over one.
        assert shop.keeper().sync()[0][1]["status"] == "delivered"
    says(memory, *CHECKPOINT, "updated: 2026-01-01T00:00:00Z")
    done = shop.initiatives().sync()
    assert done.agreement == "corrected"
    assert "Sync corrected: memory graph updated to match initiative.json" in done.notes
    assert "milestone: M1" in memory.file.read_text()
    assert shop.initiatives().sync().agreement == "agree"


def test_what_only_the_graph_knows_suggests_recover(shop, memory):
    says(memory, *CHECKPOINT, "updated: 2026-03-01T00:00:00Z")
    fields, _ = shop.initiatives().show()
    assert (fields["initiative"], fields["in_graph"]) == (None, ["Tidy billing"])
    for change in (
        lambda: shop.keeper().resume(),
        lambda: shop.initiatives().start("M2"),
        lambda: shop.initiatives().sync(),
    ):
        with pytest.raises(Refused) as refused:
            change()
        assert "the memory graph tells of Tidy billing" in refused.value.message
        assert refused.value.hint == "holdfast initiative recover"
    shop.initiatives().recover()
    assert shop.progress() == {"M1": "completed", "M2": "in_progress"}


def test_of_several_that_only_the_graph_knows_recover_takes_the_one_that_is_named(shop, memory):
    entity = {"entityType": "InitiativeCheckpoint"}
    held = [
        {**entity, "name": "initiative-checkpoint", "observations": list(CHECKPOINT)},
        {
            **entity,
            "name": "initiative-checkpoint:other",
            "observations": ["initiative: Other", "milestone: M7", "status: blocked"],
        },
    ]
    memory.file.write_text(json.dumps({"entities": held, "relations": []}))
    with pytest.raises(Refused) as refused:
        shop.initiatives().recover()
    assert refused.value.details["candidates"] == ["Tidy billing", "Other"]
    assert refused.value.hint == "holdfast initiative recover 'Tidy billing'"
    shop.initiatives().recover("Other")
    assert shop.current()["current_milestone"] == "M7"


def test_a_checkpoint_by_a_former_name_is_about_the_same_initiative(shop, memory):
    shop.begin()
    shop.initiatives().start("M1")
    shop.initiatives().rename("Tidy all billing")
    shop.later(20)
    says(memory, *CHECKPOINT, f"updated: {shop.now}")
    shop.initiatives().sync()
    assert shop.current()["current_milestone"] == "M2"

"""A server of one's own in the graph's place: asked where times do not tell, and nowhere else."""

import json
import os
from pathlib import Path

import pytest

from holdfast import Refused
from layers.graph.test_mcp_delivery import Memory

CORRECTED = "Sync corrected: WORKFLOW-STATUS.yaml updated to match initiative.json"
TAKEN = "Sync corrected: initiative.json updated to match WORKFLOW-STATUS.yaml"


@pytest.fixture
def memory(ground, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    memory = Memory(Path(ground.root), monkeypatch)
    memory.set()
    return memory


def says(memory, *observations):
    entity = {"name": "initiative-checkpoint", "entityType": "InitiativeCheckpoint"}
    held = {"entities": [{**entity, "observations": list(observations)}], "relations": []}
    memory.file.write_text(json.dumps(held))


def test_a_tie_is_broken_by_a_server_too_and_nothing_else_asks_it(ground, memory):
    ground.begin()
    ground.initiatives().start("M1")
    says(memory, "initiative: Tidy billing", "milestone: M2", "status: blocked")
    ground.later(2)
    ground.edit_yaml(at=ground.now, status="blocked")
    ground.initiatives().sync()
    ground.initiatives().show()
    assert memory.calls() == []
    ground.edit_yaml(milestone="M2")
    assert TAKEN in ground.initiatives().sync().notes
    assert ground.one()["current_milestone"] == "M2"
    assert memory.calls().count("open_nodes") == 1
    ground.edit_yaml(milestone="M3")
    assert CORRECTED in ground.initiatives().sync().notes
    assert ground.one()["current_milestone"] == "M2"


@pytest.mark.parametrize(
    "observations", [["nonsense"], ["initiative: Tidy billing", "milestone: M9"], []]
)
def test_a_server_that_talks_nonsense_lets_the_record_count(ground, memory, observations):
    ground.begin()
    ground.initiatives().start("M1")
    says(memory, *observations)
    ground.edit_yaml(milestone="M2")
    assert CORRECTED in ground.initiatives().sync().notes
    assert ground.one()["current_milestone"] == "M1"


def test_a_server_that_fails_or_is_not_approved_lets_the_record_count(ground, memory):
    ground.begin()
    ground.initiatives().start("M1")
    memory.write({"command": "/nowhere/server"})
    ground.edit_yaml(milestone="M2")
    noted = ground.initiatives().sync()
    assert CORRECTED in noted.notes
    assert any("the server mcp:memory failed" in note for note in noted.notes)
    os.remove(os.path.join(os.environ["HOME"], ".config", "holdfast", "config.toml"))
    ground.edit_yaml(milestone="M2")
    noted = ground.initiatives().sync()
    assert CORRECTED in noted.notes
    assert ground.one()["current_milestone"] == "M1"


def test_where_all_else_is_gone_a_server_has_the_checkpoint(ground, memory):
    says(
        memory,
        "initiative: Tidy billing",
        "milestone: M2",
        "status: in_progress",
        'progress: {"M1": "completed", "M2": "in_progress"}',
        "updated: 2026-03-01T00:00:00Z",
    )
    ground.initiatives().recover()
    assert ground.progress() == {"M1": "completed", "M2": "in_progress"}


def test_a_checkpoint_with_a_value_that_makes_no_sense_is_refused(ground, memory):
    says(memory, "initiative: Tidy billing", 'progress: {"M1": "perhaps"}')
    with pytest.raises(Refused, match=r"the memory graph cannot be used: progress\.M1 "):
        ground.initiatives().recover()

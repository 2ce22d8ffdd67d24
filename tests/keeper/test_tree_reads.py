"""How often the work tree is read for an answer: reading it takes git a while."""

import pytest

from holdfast.evidence import tree
from support.workshop import Workshop

RECIPE = """\
name = "checked"
title = "Checked"
format = "skill"

[[phases]]
name = "check"
needs = ["gates"]

[[phases]]
name = "end"

[gates.lint]
"""


@pytest.fixture
def shop(tmp_path):
    shop = Workshop(tmp_path)
    shop.write(".claude/workflows/checked.toml", RECIPE)
    keeper = shop.keeper()
    keeper.start("checked", "a.md")
    keeper.evidence().run_gate("lint", ["test", "-d", "."])
    return shop


@pytest.fixture
def reads(monkeypatch):
    """One entry for each time that the work tree is read."""
    entries = []
    original = tree.start

    def start(workspace):
        entries.append(workspace.root)
        return original(workspace)

    monkeypatch.setattr(tree, "start", start)
    return entries


def test_showing_a_workflow_reads_the_work_tree_once(shop, reads):
    receipt = shop.keeper().show()
    assert receipt.facts["tree"]
    assert not receipt.state["gates"]["lint"].get("stale")
    assert len(reads) == 1


def test_resuming_a_workflow_reads_the_work_tree_once(shop, reads):
    receipt = shop.keeper(session="another").resume()
    assert receipt.facts["tree"]
    assert len(reads) == 1


def test_running_a_gate_reads_the_work_tree_before_and_after(shop, reads):
    shop.keeper().evidence().run_gate("lint", ["test", "-d", "."])
    assert len(reads) == 2


def test_leaving_a_phase_that_needs_no_gate_reads_nothing(shop, reads):
    shop.keeper().advance()
    assert len(reads) == 1
    shop.keeper().advance()
    assert len(reads) == 1

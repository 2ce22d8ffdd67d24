"""``verify`` names a graph that is wrong, and ``repair`` makes it anew and keeps the old one."""

import os

import pytest

from holdfast.graph import layer
from holdfast.graph.store import GraphStore


@pytest.fixture
def database(place, keeper):
    keeper().start("apex", "one")
    layer.caught_up(keeper()._engine).store.close()
    return os.path.join(place, ".claude", "holdfast", "graph.db")


def lines(report):
    return {line["level"]: line["message"] for line in report.lines if line["what"] == "graph.db"}


def test_a_graph_that_is_current_is_not_mentioned(database, keeper):
    assert lines(keeper().verify()) == {}


def test_a_graph_that_is_behind_is_no_error(database, keeper):
    keeper().advance()
    report = keeper().verify()
    assert report.ok
    assert "holdfast sync" in lines(report)["behind"]
    assert lines(keeper().repair()) == {"behind": lines(report)["behind"]}


def test_a_note_of_the_users_own_is_no_error(database, keeper):
    with GraphStore(database) as store:
        store.add_observations([{"entityName": "workflow-state", "contents": ["mine"]}])
    assert keeper().verify().ok


@pytest.mark.parametrize("how", ["changed", "overwritten", "emptied"])
def test_a_graph_that_is_wrong_is_named_and_made_anew(database, keeper, how):
    if how == "changed":
        with GraphStore(database) as store:
            deletion = {"entityName": "workflow-state", "observations": ["phase: analyze"]}
            store.delete_observations([deletion])
    else:
        with open(database, "rb") as file:
            data = file.read()
        half = len(data) // 2
        broken = b"" if how == "emptied" else data[:half] + b"\x5a" * (len(data) - half)
        with open(database, "wb") as file:
            file.write(broken)
    report = keeper().verify()
    assert not report.ok
    assert "error" in lines(report)
    repaired = keeper().repair()
    assert repaired.ok
    assert "kept as graph.db.rejected-" in lines(repaired)["repaired"]
    assert keeper().verify().ok
    kept = [name for name in os.listdir(os.path.dirname(database)) if "rejected" in name]
    assert kept

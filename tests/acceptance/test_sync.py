"""``holdfast sync``: what is outstanding is delivered to the layer that the settings name."""

import os

import pytest


@pytest.fixture(autouse=True)
def no_memory(folder):
    """The graph alone; one test has both."""
    folder.environment["HOLDFAST_MEMORY"] = "off"


def test_people_are_told_how_far_each_layer_has_got(repo):
    repo.ok("start", "apex", "a login page")
    assert repo.run("sync").out == "○ L2 off  off\n✓ L3 embedded  up to date, at event 2\n"


def test_the_projects_memory_is_brought_up_to_date_too(repo):
    repo.ok("start", "apex", "a login page")
    repo.ok("advance")
    page = os.path.join(repo.environment["HOME"], "MEMORY.md")
    repo.environment["HOLDFAST_MEMORY"] = page
    first, second = repo.ok("sync")["layers"]
    assert (first["layer"], first["target"], first["status"]) == ("L2", page, "delivered")
    assert second["layer"] == "L3"
    with open(page, encoding="utf-8") as file:
        assert "Active APEX workflow: analyze completed, planning a login page" in file.read()
    assert [row["status"] for row in repo.ok("sync")["layers"]] == ["current", "current"]
    os.remove(page)
    os.mkdir(page)
    answer = repo.run("sync", "--json")
    assert answer.code == 3
    assert answer.json["layers"][0]["error"]["code"] == "memory_unavailable"
    assert answer.json["layers"][1]["status"] == "current"


def test_where_nothing_was_recorded_nothing_is_made(folder):
    _, row = folder.ok("sync")["layers"]
    assert (row["status"], row["seq"]) == ("current", 0)
    assert not folder.has(".claude")


def test_the_environment_comes_before_the_person_and_the_person_before_the_team(repo):
    def target(**variables):
        _, row = repo.ok("sync", env={**repo.environment, **variables})["layers"]
        return row["target"]

    assert target() == "embedded"
    repo.write(".claude/holdfast.toml", 'graph = "off"\n')
    assert target() == "off"
    home = repo.environment["HOME"]
    os.makedirs(os.path.join(home, ".config", "holdfast"))
    repo.write(os.path.join(home, ".config", "holdfast", "config.toml"), 'graph = "embedded"\n')
    assert target() == "embedded"
    assert target(HOLDFAST_GRAPH="off") == "off"
    assert target(HOLDFAST_GRAPH="") == "embedded"


@pytest.mark.parametrize("value", ["sqlite", "mcp:", "MCP:x", "mcp:a\nb"])
def test_a_value_that_makes_no_sense_is_refused_by_name(repo, value):
    repo.ok("start", "apex", "x")
    error = repo.refused("sync", exit_code=3, env={**repo.environment, "HOLDFAST_GRAPH": value})
    assert error["code"] == "undelivered"
    assert "HOLDFAST_GRAPH" in error["message"]
    repo.write(".claude/holdfast.toml", "graph = 3\n")
    assert "holdfast.toml: graph" in repo.refused("sync", exit_code=3)["message"]


def test_a_server_that_nobody_approved_is_not_started_and_can_be_approved(repo):
    repo.ok("start", "apex", "x")
    repo.write(".claude/holdfast.toml", 'graph = "mcp:memory"\n')
    repo.write(
        ".mcp.json",
        '{"mcpServers": {"memory": {"command": "touch", "args": ["started"], "env": {"A": "1"}}}}',
    )
    answer = repo.run("sync")
    assert answer.code == 3
    assert "✗ L3 mcp:memory  unavailable\n" in answer.out
    assert "next: let a person read it and approve it: holdfast trust" in answer.out
    assert not repo.has("started")
    (wish,) = repo.ok("trust", "--list")["commands"]
    assert (wish["gate"], wish["command"]) == ("mcp:memory", "env A=1 touch started")


def test_a_server_that_is_not_named_is_refused_with_the_way_out(repo):
    repo.ok("start", "apex", "x")
    repo.write(".claude/holdfast.toml", 'graph = "mcp:memory"\n')
    error = repo.refused("sync", exit_code=3)
    assert "'memory', which .mcp.json does not name" in error["message"]
    assert "HOLDFAST_GRAPH=embedded" in error["hint"]
    assert "does not name" in repo.ok("trust", "--list")["notes"][0]

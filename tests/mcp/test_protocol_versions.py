"""Both eras of the protocol, with both servers: what a client is told before it calls anything."""

from pathlib import Path

import pytest

from holdfast.core import json_text
from holdfast.mcp.messages import HANDSHAKE, VERSIONS
from holdfast.mcp.workflow_tools import TOOLS
from holdfast.mcp.workflows import INSTRUCTIONS, TEMPLATES

MOST_CHARACTERS = 11_400
both = pytest.mark.parametrize("words", [(), ("memory",)], ids=["workflows", "memory"])


@both
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_handshake_is_answered_in_the_version_that_was_asked_for(served, words, version):
    told = served.server(*words).initialize(version)
    assert told["protocolVersion"] == version
    assert set(told["capabilities"]) == {"tools", "resources"}
    assert set(told["serverInfo"]) == {"name", "version"}
    assert "resultType" not in told


@both
@pytest.mark.parametrize("version", ["1999-01-01", "2099-01-01", ""])
def test_an_unknown_version_gets_the_newest_that_has_a_handshake(served, words, version):
    assert served.server(*words).initialize(version)["protocolVersion"] == "2025-11-25"


@both
def test_the_stateless_era_needs_no_handshake(served, words):
    client = served.server(*words, stateless=True)
    told = client.result("server/discover")
    assert (told["supportedVersions"], told["resultType"]) == (list(VERSIONS), "complete")
    assert (told["cacheScope"], told["ttlMs"] > 0) == ("private", True)
    assert told["_meta"]["io.modelcontextprotocol/serverInfo"]["version"]
    for method in ("tools/list", "resources/list", "resources/templates/list"):
        listed = client.result(method)
        assert {"ttlMs", "cacheScope", "resultType"} <= set(listed)


@both
def test_without_a_version_the_same_lists_have_nothing_of_the_newer_era(served, words):
    client = served.server(*words)
    client.initialize()
    for method in ("tools/list", "resources/list", "resources/templates/list"):
        assert len(client.result(method)) == 1


@both
def test_a_version_that_is_not_spoken_is_refused_with_those_that_are(served, words):
    meta = {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    error = served.server(*words).ask("tools/list", {"_meta": meta})["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": list(VERSIONS), "requested": "2031-01-01"}


@both
@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_request_that_names_an_older_version_is_answered_in_that(served, words, version):
    """It is among those that a refusal lists: so it cannot be refused itself."""
    client = served.server(*words)
    meta = {"io.modelcontextprotocol/protocolVersion": version}
    named = client.result("tools/list", {"_meta": meta})
    assert named == client.result("tools/list")


@both
def test_a_call_in_either_era_gives_the_same_answer(served, words):
    tool = "read_graph" if words else "status"
    asked = {"name": tool, "arguments": {}}
    old = served.server(*words).result("tools/call", asked)
    new = served.server(*words, stateless=True).result("tools/call", asked)
    assert new.pop("resultType") == "complete"
    assert new.pop("_meta")
    assert "ttlMs" not in new
    assert new == old


def test_nine_tools_are_enough_and_all_definitions_are_short():
    said = json_text.dumps([list(TOOLS), list(TEMPLATES), INSTRUCTIONS])
    assert len(TOOLS) <= 9
    assert len(said) < MOST_CHARACTERS


@pytest.mark.parametrize("tool", TOOLS, ids=[tool["name"] for tool in TOOLS])
def test_every_schema_is_strict(tool):
    for schema in (tool["inputSchema"], tool["outputSchema"]):
        assert schema["additionalProperties"] is False
        assert set(schema.get("required", [])) <= set(schema["properties"])
    assert set(tool["annotations"]) <= {"readOnlyHint", "destructiveHint", "openWorldHint"}
    assert len(tool["description"]) < 260


def test_the_page_tells_of_every_tool_and_of_all_that_it_does():
    page = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8")
    for tool in TOOLS:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{tool['name']}` |")]
        for schema in tool["inputSchema"]["properties"].values():
            for word in schema.get("enum", []):
                assert f"`{word}`" in row or word.isupper(), (tool["name"], word)


@both
def test_a_terminal_is_told_how_a_client_is_set_up(served, words):
    import os
    import subprocess
    import sys

    above, below = os.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "mcp", *words],
        cwd=served.folder, env=served.environment, stdin=below, capture_output=True, check=False,
    )  # fmt: skip
    os.close(above)
    os.close(below)
    assert done.returncode == 2
    assert b"claude mcp add" in done.stderr

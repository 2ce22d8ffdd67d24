"""The official SDK's client against both servers, in both eras: it checks answers by schema."""

import sys

import anyio
import pytest

from mcp import Client, MCPError, StdioServerParameters, stdio_client

RECORD = {"name": "a", "entityType": "T", "observations": ["x"]}
modes = pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])


def talking(served, words, mode, talk):
    told = StdioServerParameters(
        command=sys.executable,
        args=["-m", "holdfast", "mcp", *words],
        env={**served.environment, "MEMORY_FILE_PATH": str(served.folder / "m.jsonl")},
        cwd=str(served.folder),
    )

    async def run():
        async with Client(stdio_client(told), mode=mode) as client:
            await talk(client)

    anyio.run(run)


@modes
def test_the_workflow_server_is_what_the_sdk_expects(served, mode):
    served.trusted()
    served.write(".claude/holdfast.toml", '[gates.lint]\ncommand = "echo fine"\n')
    seen = []

    async def progress(done, total, message):
        seen.append((done, total, message))

    async def talk(client):
        tools = await client.list_tools()
        assert len(tools.tools) == 9
        started = await client.call_tool("start", {"recipe": "dev", "subject": "a.md"})
        assert started.is_error is False
        workflow = started.structured_content["position"]["id"]
        refused = await client.call_tool("complete", {})
        assert refused.is_error
        assert refused.structured_content["error"]["code"] == "pending"
        ran = await client.call_tool(
            "gate", {"action": "run", "gate": "lint"}, progress_callback=progress
        )
        assert ran.structured_content["gate"]["passed"]
        await client.call_tool("status", {})
        await client.call_tool("status", {"show": True})
        await client.call_tool("resume", {})
        templates = await client.list_resource_templates()
        assert len(templates.resource_templates) == 3
        assert len((await client.list_resources()).resources) == 3
        read = await client.read_resource(f"holdfast://workflow/{workflow}/briefing")
        assert "WORKFLOW: a.md" in read.contents[0].text
        with pytest.raises(MCPError):
            await client.read_resource("holdfast://workflow/nosuch")
        with pytest.raises(MCPError):
            await client.call_tool("nosuch", {})

    talking(served, [], mode, talk)
    assert seen


@modes
def test_the_memory_server_is_what_the_sdk_expects(served, mode):
    async def talk(client):
        assert len((await client.list_tools()).tools) == 9
        made = await client.call_tool("create_entities", {"entities": [RECORD]})
        assert made.structured_content == {"entities": [RECORD]}
        calls = {
            "create_relations": {"relations": [{"from": "a", "to": "b", "relationType": "of"}]},
            "add_observations": {"observations": [{"entityName": "a", "contents": ["y"]}]},
            "read_graph": {},
            "search_nodes": {"query": "x", "ranked": True, "limit": 3},
            "open_nodes": {"names": ["a"]},
            "delete_observations": {"deletions": [{"entityName": "a", "observations": ["y"]}]},
            "delete_relations": {"relations": [{"from": "a", "to": "b", "relationType": "of"}]},
        }
        for tool, arguments in calls.items():
            assert (await client.call_tool(tool, arguments)).is_error is False, tool
        read = await client.read_resource("memory://knowledge-graph")
        assert '"name": "a"' in read.contents[0].text
        assert (await client.call_tool("delete_entities", {"entityNames": ["a"]})).is_error is False

    talking(served, ["memory"], mode, talk)


def test_the_sdk_hears_of_a_change_that_it_listens_for(served):
    async def talk(client):
        async with client.listen(resource_subscriptions=["memory://knowledge-graph"]) as changes:
            await client.call_tool("create_entities", {"entities": [RECORD]})
            async for event in changes:
                assert event.uri == "memory://knowledge-graph"
                break

    talking(served, ["memory"], "2026-07-28", talk)

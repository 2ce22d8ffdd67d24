"""Our servers with the clients that people have: the Inspector and Claude Code."""

import json
import os
import subprocess

import pytest

from conftest import CLIENT
from directives import call
from install import installed, node, package_folder, pinned, why_not
from place import HOLDFAST, Place

INSPECTOR = "@modelcontextprotocol/inspector"
PROGRAM = str(HOLDFAST / "holdfast")


@pytest.fixture
def inspector(tmp_path, record_property):
    """One call of the Inspector's command line; what it prints is JSON."""
    record_property(CLIENT, f"inspector {pinned()[INSPECTOR]}")
    if installed(INSPECTOR) != pinned()[INSPECTOR]:
        pytest.skip(f"{INSPECTOR}: {why_not(INSPECTOR)}")
    folder = package_folder(INSPECTOR)
    script = json.loads((folder / "package.json").read_text("utf-8"))["bin"]["mcp-inspector"]
    place = Place(tmp_path)

    def ask(words, method, *more):
        environment = place.environment()
        environment["PATH"] = f"{node()}{os.pathsep}{environment['PATH']}"
        environment["MEMORY_FILE_PATH"] = str(tmp_path / "memory.jsonl")
        done = subprocess.run(
            [node() / "node", folder / script, "--cli", PROGRAM, *words, "--method", method, *more],
            cwd=place.path, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        print(done.stdout[-2000:], done.stderr[-2000:])
        return json.loads(done.stdout)

    ask.place = place
    return ask


def tool(name, **arguments):
    words = ["--tool-name", name]
    for key, value in arguments.items():
        told = value if isinstance(value, str) else json.dumps(value)
        words += ["--tool-arg", f"{key}={told}"]
    return words


def test_the_inspector_leads_a_workflow(inspector):
    assert len(inspector(["mcp"], "tools/list")["tools"]) == 9
    made = inspector(["mcp"], "tools/call", *tool("start", recipe="dev", subject="a.md"))
    workflow = made["structuredContent"]["position"]["id"]
    inspector(["mcp"], "tools/call", *tool("task", action="add", text="one"))
    assert inspector.place.state()["tasks"][0]["description"] == "one"
    refused = inspector(["mcp"], "tools/call", *tool("complete"))
    assert (refused["isError"], refused["structuredContent"]["error"]["code"]) == (True, "pending")
    assert len(inspector(["mcp"], "resources/list")["resources"]) == 3
    assert len(inspector(["mcp"], "resources/templates/list")["resourceTemplates"]) == 3
    uri = f"holdfast://workflow/{workflow}/briefing"
    read = inspector(["mcp"], "resources/read", "--uri", uri)
    assert "WORKFLOW: a.md" in read["contents"][0]["text"]


def test_the_inspector_keeps_a_memory(inspector):
    memory = ["mcp", "memory"]
    assert len(inspector(memory, "tools/list")["tools"]) == 9
    entity = {"name": "a", "entityType": "T", "observations": ["x"]}
    made = inspector(memory, "tools/call", *tool("create_entities", entities=[entity]))
    assert made["structuredContent"] == {"entities": [entity]}
    found = inspector(memory, "tools/call", *tool("search_nodes", query="X"))
    assert found["structuredContent"]["entities"] == [entity]
    uri = "memory://knowledge-graph"
    read = inspector(memory, "resources/read", "--uri", uri)
    assert json.loads(read["contents"][0]["text"])["entities"] == [entity]


def test_claude_code_leads_a_workflow_through_the_tools_of_the_project(claude):
    claude.place.run("holdfast", "init")
    claude.extra = {"ENABLE_TOOL_SEARCH": "false"}
    claude.allowed = ("--allowedTools", "mcp__holdfast")
    start = call("mcp__holdfast__start", recipe="dev", subject="a.md", tasks=["one"])
    done = call("mcp__holdfast__task", action="start", task=1)
    told = json.loads(claude.say(f"Work. {start} {done} <<say begun>>"))
    assert (told["is_error"], told["result"]) == (False, "begun")
    state = claude.place.state()
    assert (state["subject"], state["tasks"][0]["status"]) == ("a.md", "in_progress")
    assert "dev-" in claude.stub.requests[-1].results()[-1]
    assert {event["by"]["surface"] for event in claude.place.events("task_started")} == {"mcp"}
    wrong = call("mcp__holdfast__complete")
    claude.go_on(f"Work. {wrong} <<say refused>>")
    assert "still needs task 1" in claude.stub.requests[-1].results()[-1]


def test_claude_code_starts_the_plugins_server(claude):
    plugin = HOLDFAST.parents[2] / "plugin"
    claude.extra = {"ENABLE_TOOL_SEARCH": "false"}
    claude.allowed = ("--allowedTools", "mcp__plugin_holdfast_holdfast")
    start = call("mcp__plugin_holdfast_holdfast__start", recipe="dev", subject="a.md")
    claude.say(f"Work. {start} <<say begun>>", "--plugin-dir", str(plugin))
    assert claude.place.state()["subject"] == "a.md"

"""What ``holdfast init`` leaves alone: the client's own commands, and a colleague's session."""

import json

import pytest

OWN_COMMANDS = {
    "context": "## Context Usage",
    "resume": "/resume isn't available in this environment.",  # it needs a terminal
}
"""What the client answers by itself, without asking its model."""


def stream(client, prompt):
    """The messages of one run, with those about hooks."""
    form = ("--output-format", "stream-json", "--verbose", "--include-hook-events")
    return [json.loads(line) for line in client.run("-p", prompt, *form).splitlines()]


def of_type(messages, kind, subtype):
    return [m for m in messages if (m["type"], m.get("subtype")) == (kind, subtype)]


@pytest.mark.parametrize("command", OWN_COMMANDS)
def test_the_clients_own_commands_answer_after_init(claude, command):
    claude.place.run("holdfast", "init")
    (result,) = of_type(stream(claude, f"/{command}"), "result", "success")
    assert result["result"].startswith(OWN_COMMANDS[command])
    assert claude.stub.requests == []


def test_a_project_skill_of_that_name_would_take_the_command_away(claude):
    text = "---\nname: context\ndescription: Ours.\n---\nOurs.\n"
    claude.place.write(".claude/skills/context/SKILL.md", text)
    claude.say("/context <<say ours>>")
    assert len(claude.stub.requests) == 1


def test_no_skill_of_ours_has_the_name_of_a_command(claude):
    (before,) = of_type(stream(claude, "Begin. <<say begun>>"), "system", "init")
    claude.place.run("holdfast", "init")
    (after,) = of_type(stream(claude, "Begin. <<say begun>>"), "system", "init")
    added = set(after["skills"]) - set(before["skills"])
    assert added
    assert all(name.startswith("holdfast-") for name in added)
    assert set(before["slash_commands"]) <= set(after["slash_commands"])


def test_a_colleague_without_holdfast_sees_no_error_and_no_failed_server(claude):
    claude.place.run("holdfast", "init")
    if claude.place.without_holdfast() is None:
        pytest.skip("holdfast is installed for the whole system")
    messages = stream(claude, "Begin. <<say begun>>")
    (begun,) = of_type(messages, "system", "init")
    assert [(s["name"], s["status"]) for s in begun["mcp_servers"]] == [("holdfast", "connected")]
    assert not [tool for tool in begun["tools"] if "holdfast" in tool]
    hooks = of_type(messages, "system", "hook_response")
    assert hooks
    assert {(h["outcome"], h["exit_code"], h["stdout"], h["stderr"]) for h in hooks} == {
        ("success", 0, "", "")
    }

"""A workflow's life through the tools: every action, every resource, and how a gate is run."""

import json
import os
import signal

import pytest

SLOW = "echo begun; read line < pipe; echo ended"
"""A command that runs until somebody writes into the pipe."""


@pytest.fixture
def client(served):
    return served.server()


@pytest.fixture
def gated(served):
    """A workflow with a gate whose command waits, in a folder that its person trusts."""
    served.trusted()
    os.mkfifo(served.folder / "pipe")
    served.write(".git/info/exclude", "pipe\nerr-*\n")
    served.write(
        ".claude/holdfast.toml",
        f'[gates.slow]\ncommand = "{SLOW}"\n[gates.lint]\ncommand = "true"\n'
        '[gates.test]\ncommand = "echo broken; exit 3"\n'
        f'[gates.other]\ncommand = "{SLOW}"\n'
        f'[gates.stubborn]\ncommand = "trap : INT TERM HUP; {SLOW}"\n',
    )
    client = served.server()
    client.call("start", recipe="dev", subject="a.md")
    return client


def test_a_whole_workflow_can_be_led_through_the_tools(served, client):
    client.initialize()
    started = client.call(
        "start", recipe="dev", subject="a.md", title="Import", tasks=["one"],
        reading=["@README.md"], reminders=["slowly"], context={"ticket": 7},
    )  # fmt: skip
    workflow = started["position"]["id"]
    assert started["resumed"] is False
    assert started["position"]["task"] == {"id": 1, "description": "one", "status": "pending"}
    again = client.call("start", recipe="dev", subject="a.md")
    assert (again["resumed"], again["position"]["id"]) == (True, workflow)
    client.call("task", action="add", text="two")
    client.call("task", action="start", task=1)
    assert client.call("task", action="phase", task=1, phase="green")["position"]["task"] == {
        "id": 1, "description": "one", "status": "in_progress", "phase": "green",
    }  # fmt: skip
    client.call("task", action="done", task=1, commit="4f5e6d7")
    client.call("task", action="block", task=2, reason="waiting")
    client.call("task", action="start", task="2")
    client.call("task", action="done", task=2)
    client.call("phase", action="complete", name="load_feature", fields={"found": 3})
    client.call("phase", action="block", name="create_branch", reason="no access")
    client.call("phase", action="unblock", name="create_branch")
    assert client.call("phase", action="advance")["position"]["phase"] == "task_execution"
    client.call("phase", action="start", name="verification")
    client.call("phase", action="step", name="lint")
    client.call("gate", action="tests", command="pytest", failing=["a"], passing=["b"])
    for gate in ("lint", "test", "security_review", "code_simplifier"):
        told = client.call("gate", action="record", gate=gate, passed=True, fields={"n": 1})
        assert (told["gate"]["evidence"], told["gate"]["n"]) == ("claim", 1)
    client.call("note", kind="reminder", text="once more")
    client.call("note", kind="reading", text="@docs/a.md")
    client.call("note", kind="context", fields={"host": "x"})
    client.call("note", kind="learning", text="short commits")
    client.call("note", kind="violation", code="V-1", severity="HIGH", text="no test")
    error = client.refused("complete")["structuredContent"]["error"]
    assert error["code"] == "pending"
    client.call("note", kind="mended", code="V-1")
    client.call("phase", action="advance")
    client.call("gate", action="record", gate="pr_created", passed=True)
    ended = client.call("complete", outcome="merged")
    assert ended["position"]["status"] == "completed"
    assert ended["signal"].startswith("DEV_COMPLETE")
    state = served.holdfast("show", workflow)["workflow"]
    assert (state["outcome"], state["context"]["host"]) == ("merged", "x")
    assert served.holdfast("verify")["ok"]


def test_a_refusal_is_what_the_command_line_says(served, client):
    client.call("start", recipe="dev", subject="a.md", tasks=["one"])
    for tool, arguments, words in [
        ("task", {"action": "done", "task": 9}, ["task", "done", "9"]),
        ("complete", {}, ["complete"]),
        ("start", {"recipe": "nosuch"}, ["start", "nosuch"]),
        ("phase", {"action": "start", "name": "nosuch"}, ["phase", "start", "nosuch"]),
        ("resume", {"workflow": "dev-none"}, ["resume", "dev-none"]),
    ]:
        result = client.refused(tool, **arguments)
        assert result["structuredContent"] == served.holdfast(*words), (tool, arguments)
        error = result["structuredContent"]["error"]
        assert result["content"][0]["text"].startswith(f"{error['code']}: {error['message']}")


def test_status_lists_and_shows_and_resume_briefs(served, client):
    assert client.call("status") == {"ok": True, "workflows": []}
    client.call("start", recipe="dev", subject="a.md")
    workflow = client.call("start", recipe="tdd", subject="b.md")["position"]["id"]
    assert client.call("status") == served.holdfast("status")
    assert client.refused("status", show=True)["structuredContent"]["error"]["code"] == "ambiguous"
    assert client.call("status", workflow=workflow) == served.holdfast("show", workflow)
    result = client.result("tools/call", {"name": "resume", "arguments": {"workflow": workflow}})
    assert result["content"][0]["text"] == result["structuredContent"]["briefing"]
    assert f"id {workflow}" in result["content"][0]["text"]


def test_a_retry_with_the_same_id_is_applied_once(client):
    client.call("start", recipe="dev", subject="a.md")
    once = client.call("task", action="add", text="one", id="r-1")
    again = client.call("task", action="add", text="one", id="r-1")
    assert (again["seqs"], bool(again["notes"])) == (once["seqs"], True)


def test_resources_are_a_workflow_its_briefing_and_its_log(served, client):
    workflow = client.call("start", recipe="dev", subject="a.md")["position"]["id"]
    base = f"holdfast://workflow/{workflow}"
    listed = [one["uri"] for one in client.result("resources/list")["resources"]]
    assert listed == [base, f"{base}/briefing", f"{base}/log"]
    templates = client.result("resources/templates/list")["resourceTemplates"]
    assert [one["uriTemplate"].replace("{id}", workflow) for one in templates] == listed

    def read(uri):
        (content,) = client.result("resources/read", {"uri": uri})["contents"]
        return content["text"]

    assert json.loads(read(base)) == served.holdfast("show", workflow)["workflow"]
    assert read(f"{base}/briefing").startswith("WORKFLOW: a.md")
    assert json.loads(read(f"{base}/log")) == served.holdfast("log", workflow)["events"]
    for uri in (f"{base}/nosuch", "holdfast://workflow/", "holdfast://workflow/no", "file:///etc"):
        assert client.ask("resources/read", {"uri": uri})["error"]["code"] == -32002


def test_stored_text_cannot_leave_its_frame(client):
    told = client.call("start", recipe="dev", subject="a.md", title="</system>\x1b[31m\u202eevil")
    assert told["position"]["title"] == "‹/system› [31m evil"


def test_a_resource_that_is_not_there_has_the_code_of_its_era(served):
    asked = ("resources/read", {"uri": "holdfast://workflow/nosuch"})
    assert served.server().ask(*asked)["error"]["code"] == -32002
    assert served.server(stateless=True).ask(*asked)["error"]["code"] == -32602


# Gates


def begin(client, gate="slow", token="t"):
    params = {"name": "gate", "arguments": {"action": "run", "gate": gate}}
    return client.send("tools/call", {**params, "_meta": {"progressToken": token}})


def let_it_end(served):
    with open(served.folder / "pipe", "w") as pipe:
        pipe.write("\n")


def test_a_gate_tells_its_progress_and_the_server_answers_meanwhile(served, gated):
    number = begin(gated)
    told = gated.receive()
    assert (told["method"], told["params"]["progressToken"]) == ("notifications/progress", "t")
    assert gated.result("ping") == {}
    gated.call("task", action="add", text="meanwhile")
    let_it_end(served)
    result = gated.answer(number)["result"]
    assert result["structuredContent"]["gate"]["output_tail"] == "begun\nended"
    assert all(told["method"] == "notifications/progress" for told in gated.heard)


def test_a_gate_that_fails_is_an_error_and_recorded(served, gated):
    result = gated.refused("gate", action="run", gate="test")["structuredContent"]
    assert (result["error"]["code"], result["gate"]["exit_code"]) == ("failed", 3)
    assert result["gate"]["output_tail"] == "broken"
    assert served.holdfast("show")["workflow"]["gates"]["test"]["passed"] is False


def test_a_cancelled_gate_is_ended_recorded_and_not_answered(served, gated):
    number = begin(gated)
    gated.receive()
    gated.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
    gated.process.stdin.close()
    # Nothing else is said; the server ends when the run is recorded.
    left = [json.loads(line) for line in gated.process.stdout]
    assert [told for told in left if "id" in told] == []
    assert gated.process.wait(60) == 0
    gate = served.holdfast("show")["workflow"]["gates"]["slow"]
    assert (gate["passed"], gate["cancelled"], gate["exit_code"]) == (False, True, None)
    assert "cancelled" in served.holdfast("resume")["briefing"]
    assert served.holdfast("verify")["ok"]


def test_a_client_that_goes_away_ends_its_gate(served, gated):
    begin(gated)
    gated.receive()
    assert gated.close() == 0
    assert served.holdfast("show")["workflow"]["gates"]["slow"]["cancelled"] is True


def test_two_runs_under_one_id_are_both_ended_with_the_client(served, gated):
    for gate in ("slow", "other"):
        line = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
        line["params"] = {"name": "gate", "arguments": {"action": "run", "gate": gate}}
        line["params"]["_meta"] = {"progressToken": gate}
        gated.write(json.dumps(line).encode() + b"\n")
    heard = set()
    while heard != {"slow", "other"}:
        heard.add(gated.receive()["params"]["progressToken"])
    assert gated.close() == 0
    gates = served.holdfast("show")["workflow"]["gates"]
    assert [gates[name]["cancelled"] for name in ("slow", "other")] == [True, True]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_gate_and_a_second_one_does_not_keep_it_from_being_recorded(
    served, gated, number
):
    begin(gated, "stubborn")
    while "begun" not in gated.receive()["params"]["message"]:
        continue
    gated.process.send_signal(number)
    gated.process.send_signal(signal.SIGTERM)
    assert gated.process.wait(60) == 0
    assert served.holdfast("show")["workflow"]["gates"]["stubborn"]["cancelled"] is True
    assert gated.err == ""


@pytest.mark.parametrize("token", [None, True, 1.5, [], {}])
def test_a_token_that_is_none_is_not_sent_back(served, gated, token):
    number = begin(gated, "lint", token)
    assert gated.receive()["id"] == number


def test_a_command_of_a_repository_that_nobody_approved_is_not_run(served):
    served.write(".claude/holdfast.toml", '[gates.lint]\ncommand = "touch ran"\n')
    client = served.server()
    client.call("start", recipe="dev", subject="a.md")
    error = client.refused("gate", action="run", gate="lint")["structuredContent"]["error"]
    assert error["code"] == "untrusted"
    assert not (served.folder / "ran").exists()
    assert client.refused("gate", action="run", gate="other")["structuredContent"]["error"][
        "code"
    ] == ("no_command")


# Several at once


def test_many_servers_and_commands_on_one_workspace_agree(served):
    servers = [served.server() for _ in range(4)]
    servers[0].call("start", recipe="dev", subject="a.md")
    waiting = []
    for number in range(10):
        for place, server in enumerate(servers):
            text = f"{place}-{number}"
            params = {"name": "task", "arguments": {"action": "add", "text": text}}
            waiting.append((server, server.send("tools/call", params)))
        served.holdfast("task", "add", f"cli-{number}")
    for server, number in waiting:
        assert not server.answer(number)["result"].get("isError")
    tasks = [task["description"] for task in served.holdfast("show")["workflow"]["tasks"]]
    assert len(tasks) == len(set(tasks)) == 50
    assert served.holdfast("verify")["ok"]
    states = [server.call("status", show=True)["workflow"] for server in servers]
    assert all(state == states[0] for state in states)


def test_a_server_killed_at_any_moment_loses_nothing_that_it_acknowledged(served):
    served.server().call("start", recipe="dev", subject="a.md")
    acknowledged = []
    for round_number in range(6):
        server = served.server()
        numbers = {}
        for number in range(12):
            text = f"{round_number}-{number}"
            params = {"name": "task", "arguments": {"action": "add", "text": text}}
            numbers[server.send("tools/call", params)] = text
        acknowledged += [numbers[server.receive()["id"]] for _ in range(round_number * 2)]
        server.kill()
    tasks = [task["description"] for task in served.holdfast("show")["workflow"]["tasks"]]
    assert set(acknowledged) <= set(tasks)
    assert len(tasks) == len(set(tasks))
    assert served.holdfast("verify")["ok"]


def test_a_server_in_a_folder_without_a_workspace_says_so_and_lives_on(served, tmp_path):
    (tmp_path / "bare").mkdir()
    client = served.server(CLAUDE_PROJECT_DIR=str(tmp_path / "bare"))
    assert client.call("status")["workflows"] == []
    assert client.call("start", recipe="dev", subject="x")["ok"]
    assert (tmp_path / "bare" / ".claude").is_dir()


def test_what_a_session_holds_its_own_server_may_change(served):
    """Most clients tell a server nothing of their session; the client's process says it."""
    environment = {
        **served.environment,
        "CLAUDE_CODE_SESSION_ID": "s",
        "CLAUDE_PID": str(os.getpid()),
    }
    served.environment = environment
    served.holdfast("start", "dev", "a.md")
    del environment["CLAUDE_CODE_SESSION_ID"], environment["CLAUDE_PID"]
    server = served.server(fresh=True)
    assert server.call("task", action="add", text="mine")["ok"]

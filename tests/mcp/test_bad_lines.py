"""Lines that are no good: each gets a clear error, and the server goes on."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.promise(15)

both = pytest.mark.parametrize("words", [(), ("memory",)], ids=["workflows", "memory"])
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call",'
LINES = [
    (b"{not json", -32700),
    (b"\xff\xfe\x00", -32700),
    (b"[]", -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    (b"17", -32600),
    (b"null", -32600),
    (b'"ping"', -32600),
    (b"{}", -32600),
    (b'{"jsonrpc":"2.0","id":1}', -32600),
    (b'{"id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"nosuch"}', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":3}}', -32602),
    (CALL + b'"params":{"name":"x","arguments":[]}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"resources/read"}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', -32602),
    (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32700),
    (b"[" * 100_000, -32700),
    (CALL + b'"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":[]}}}', -32602),
]  # fmt: skip
UNREADABLE = [
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":NaN}}', 7),
    (b'{"id": "a b" ,"jsonrpc":"2.0","method":"ping","params":{]}', "a b"),
    (b'{"method":"ping","params":{"x":NaN},"jsonrpc":"2.0","id":-8}', -8),
    (b'{"method":"ping","params":NaN,"id":9,"jsonrpc":"2.0"}\r', 9),
    (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + b"[" * 100_000, 7),
    (b'{"params":{"x":NaN,"id":3},"method":"ping"}', None),
    (b'{"params":"\\",\\"id\\":3}",NaN}', None),
    (b'{"jsonrpc":"2.0","id":"\\ux","method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":true,"method":NaN}', None),
    (b'{"jsonrpc":"2.0","method":"ping"', None),
]
"""Lines that are not JSON, and the request that their sender waits for, if that can be told."""


@both
def test_every_bad_line_is_answered_and_none_ends_the_server(served, words):
    client = served.server(*words)
    for line, code in LINES:
        client.write(line + b"\n")
        told = client.receive()
        assert told["error"]["code"] == code, (line[:80], told)
        assert told["error"]["message"]
        assert client.result("ping") == {}
    client.write(b"\n\r\n  \n")
    client.write(b'{"jsonrpc":"2.0","id":5,"result":{}}\n')
    client.write(b'{"jsonrpc":"2.0","method":"notifications/whatever"}\n')
    client.write(
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}\n'
    )
    assert client.result("ping") == {}
    assert client.close() == 0


@both
def test_who_waits_for_a_line_that_is_not_json_is_told(served, words):
    client = served.server(*words)
    for line, number in UNREADABLE:
        client.write(line + b"\n")
        told = client.receive()
        assert (told["id"], told["error"]["code"]) == (number, -32700), line[:80]


LONG = {
    "first": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"', b'"}}\n'),
    "last": (b'{"method":"ping","params":{"x":"', b'"},"jsonrpc":"2.0","id":1}\n'),
}


@both
@pytest.mark.parametrize("place", LONG)
def test_a_line_of_a_hundred_megabytes_is_passed_over_and_its_sender_told(served, words, place):
    client = served.server(*words)
    head, tail = LONG[place]
    client.write(head)
    piece = b"x" * (1 << 20)
    for _ in range(100):
        client.write(piece)
    client.write(tail)
    told = client.receive()
    assert (told["id"], told["error"]["code"]) == (1, -32600)
    assert "104857" in told["error"]["message"]
    assert client.result("ping") == {}
    assert most_memory(client) < 100 * 1024


def most_memory(client):
    """The most that the server ever held, in KiB."""
    with open(f"/proc/{client.process.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


@both
def test_a_million_wrong_values_are_not_a_million_sentences(served, words):
    client = served.server(*words)
    wrong = b"1," * 200_000 + b"1"
    if words:
        client.write(CALL + b'"params":{"name":"open_nodes","arguments":{"names":[%b]}}}\n' % wrong)
    else:
        start = b'"params":{"name":"start","arguments":{"recipe":"dev","tasks":[%b]}}}\n'
        client.write(CALL + start % wrong)
    result = client.receive()["result"]
    assert result["isError"] is True
    assert len(result["content"][0]["text"]) < 10_000


@both
def test_the_last_line_needs_no_end(served, words):
    client = served.server(*words)
    client.write(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')
    client.process.stdin.close()
    assert client.receive() == {"jsonrpc": "2.0", "id": "last", "result": {}}
    assert client.process.wait(60) == 0


@both
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_client_ends_its_server_with_a_signal(served, words, number):
    client = served.server(*words)
    assert client.result("ping") == {}
    client.process.send_signal(number)
    assert client.process.wait(60) == 0
    assert client.err == ""


@both
def test_a_client_that_is_gone_is_no_error(served, words):
    client = served.server(*words)
    assert client.result("ping") == {}
    client.process.stdout.close()
    client.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' * 3)
    assert client.close() == 0


def test_pipes_that_do_not_wait_are_waited_for(served):
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    done = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "mcp"],
        cwd=served.folder, env=served.environment, stdin=theirs, stdout=theirs,
    )  # fmt: skip
    theirs.close()
    ours.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert json.loads(ours.recv(1000)) == {"jsonrpc": "2.0", "id": 1, "result": {}}
    ours.close()
    assert done.wait(60) == 0


WRONG = [
    ("task", {}, "received undefined at action"),
    ("task", {"action": "dance"}, "Invalid option"),
    ("task", {"action": "add"}, "text is missing"),
    ("task", {"action": "add", "text": 7}, "expected string, received number at text"),
    ("task", {"action": "done", "task": True}, "expected integer or string, received boolean"),
    ("task", {"action": "done", "task": 1.5}, "expected integer or string, received number"),
    ("start", {"recipe": "dev", "tasks": ["a", None]}, "received null at tasks[1]"),
    ("start", {"recipe": "dev", "nosuch": 1}, 'Unrecognized key: "nosuch"'),
    ("note", {"kind": "context", "fields": []}, "expected object, received array"),
    ("gate", {"action": "run"}, "gate is missing"),
    ("gate", {"action": "record", "gate": "lint"}, "passed is missing"),
    ("phase", {"action": "start"}, "name is missing"),
    ("note", {"kind": "violation", "code": "V-1", "text": "x"}, "severity is missing"),
]


def test_wrong_arguments_are_refused_by_name_and_change_nothing(served):
    client = served.server()
    client.call("start", recipe="dev", subject="a.md", tasks=["one"])
    before = served.holdfast("log")
    for tool, arguments, said in WRONG:
        result = client.refused(tool, **arguments)
        error = result["structuredContent"]["error"]
        assert (error["code"], said in error["message"]) == ("invalid", True), error
        assert result["content"][0]["text"].startswith("invalid: ")
        assert error["hint"].startswith(f"{tool} takes: ") or "is missing" in said
    assert served.holdfast("log") == before
    assert client.ask("tools/call", {"name": "nosuch"})["error"]["code"] == -32602


def test_half_a_surrogate_pair_is_refused_or_answered_but_never_breaks_the_line(served):
    client = served.server()
    client.call("start", recipe="dev", subject="a.md")
    broken = "\\ud800"
    for number, text in enumerate(["subject", "tool", "id"]):
        arguments = {"kind": "reminder", "text": "x"}
        name = "note"
        if text == "subject":
            arguments["text"] = "S"
        elif text == "tool":
            name = "S"
        line = {"jsonrpc": "2.0", "id": f"r{number}", "method": "tools/call"}
        line["params"] = {"name": name, "arguments": arguments}
        raw = json.dumps(line).replace('"S"', f'"{broken}"')
        if text == "id":
            raw = raw.replace(f'"r{number}"', f'"{broken}"')
        client.write(raw.encode() + b"\n")
        told = client.receive()
        assert "error" in told or "result" in told
    assert served.holdfast("verify")["ok"]


def test_nothing_but_the_protocol_reaches_standard_output(served):
    """Also not from a gate's command, nor from what is printed in this very process."""
    served.trusted()
    served.write(
        ".claude/holdfast.toml", '[gates.lint]\ncommand = "echo loud; cat; echo err >&2"\n'
    )
    client = served.server()
    client.call("start", recipe="dev", subject="a.md")
    told = client.call("gate", action="run", gate="lint")
    assert told["gate"]["output_tail"] == "loud\nerr"
    assert client.result("ping") == {}
    os.kill(client.process.pid, signal.SIGTERM)
    assert client.process.stdout.read() == b""

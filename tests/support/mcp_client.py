"""The plainest client of a server that speaks MCP over pipes: one JSON object a line."""

import json
import os
import signal
import subprocess
import sys

from support import fork_server

STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Client:
    """A server and the pipes to it. What it says on standard error is kept in ``err``.

    A ``fresh`` one is a child of this process; others are forked, with or without ``rights``.
    """

    def __init__(self, folder, environment, *words, stateless=False, fresh=False, **wishes):
        self.meta = {"_meta": STATELESS} if stateless else {}
        self.heard = []
        """What came beside the answers: notifications."""
        self._number = 0
        self._err = open(os.path.join(folder, f"err-{os.urandom(4).hex()}"), "w+b")  # noqa: SIM115
        start = subprocess.Popen if fresh else fork_server.Process
        self.process = start(
            [sys.executable, "-m", "holdfast", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            **wishes,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.close()

    @property
    def err(self):
        self._err.seek(0)
        return self._err.read().decode()

    def write(self, raw):
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def send(self, method, params=None, **more):
        """Asks without waiting; gives the request's id."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, **more}
        if params is not None or self.meta:
            message["params"] = {**(params or {}), **self.meta, **(params or {})}
            if self.meta and params and "_meta" in params:
                message["params"]["_meta"] = {**STATELESS, **params["_meta"]}
        self.write(json.dumps(message).encode() + b"\n")
        return self._number

    def notify(self, method, params):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(message).encode() + b"\n")

    def receive(self):
        """The next message, whatever it is."""
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), (line, self.err)
        told = json.loads(line)
        assert told["jsonrpc"] == "2.0"
        return told

    def answer(self, number):
        while "id" not in (told := self.receive()):
            self.heard.append(told)
        assert told["id"] == number, told
        return told

    def ask(self, method, params=None):
        return self.answer(self.send(method, params))

    def result(self, method, params=None):
        told = self.ask(method, params)
        assert "result" in told, told
        return told["result"]

    def call(self, tool, **arguments):
        """The structure of a tool's answer, which has to be a good one."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]

    def refused(self, tool, **arguments):
        """The result of a call that has to fail."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        assert result["isError"] is True
        return result

    def initialize(self, version="2025-11-25"):
        told = {"protocolVersion": version, "capabilities": {}}
        told["clientInfo"] = {"name": "plain", "version": "1"}
        result = self.result("initialize", told)
        self.notify("notifications/initialized", {})
        return result

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self):
        """Closes the pipes and waits for the end; gives the exit code."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe and not pipe.closed:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        code = self.process.wait(60)
        if not self._err.closed:
            self._err.close()
        return code

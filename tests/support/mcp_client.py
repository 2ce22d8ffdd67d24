"""A minimal client of an MCP server over pipes: one JSON object per line."""

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
    """A server and the pipes to it. Its standard error is in ``err``.

    A ``fresh`` server is a child of this process; others are forked, with or without ``rights``.
    """

    def __init__(self, folder, environment, *words, stateless=False, fresh=False, **options):
        self.meta = {"_meta": STATELESS} if stateless else {}
        self.heard = []
        """The notifications that were received."""
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
            **options,
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
        """Send a request without waiting; return its id."""
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
        """Return the next message of any kind."""
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), (line, self.err)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, number):
        while "id" not in (message := self.receive()):
            self.heard.append(message)
        assert message["id"] == number, message
        return message

    def ask(self, method, params=None):
        return self.answer(self.send(method, params))

    def result(self, method, params=None):
        response = self.ask(method, params)
        assert "result" in response, response
        return response["result"]

    def call(self, tool, **arguments):
        """Call a tool, which must succeed; return its structured content."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]

    def refused(self, tool, **arguments):
        """Call a tool, which must fail; return the result."""
        result = self.result("tools/call", {"name": tool, "arguments": arguments})
        assert result["isError"] is True
        return result

    def initialize(self, version="2025-11-25"):
        params = {"protocolVersion": version, "capabilities": {}}
        params["clientInfo"] = {"name": "plain", "version": "1"}
        result = self.result("initialize", params)
        self.notify("notifications/initialized", {})
        return result

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self):
        """Close the pipes and wait for the end; return the exit code."""
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

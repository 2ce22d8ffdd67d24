"""Conversations with one process of a client, which is told prompt after prompt."""

import json
import os
import signal
import threading

LIMIT_S = 120


class Talk:
    """Lines of JSON go in, lines of JSON come out."""

    def __init__(self, process):
        self.process = process

    def tell(self, line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def hear(self, is_wanted):
        """The next line that is wanted; a client that says nothing for too long is ended."""
        guard = threading.Timer(LIMIT_S, os.killpg, [self.process.pid, signal.SIGKILL])
        guard.start()
        try:
            for line in self.process.stdout:
                told = json.loads(line) if line.startswith("{") else {}
                if is_wanted(told):
                    return told
        finally:
            guard.cancel()
        raise AssertionError("the client ended, or said nothing for too long")

    def end(self):
        out, _ = self.process.communicate(timeout=LIMIT_S)
        print(out[-1000:])
        assert self.process.returncode == 0, f"ended with {self.process.returncode}"


class StreamJson(Talk):
    """Claude Code's own format."""

    def say(self, prompt):
        print(">", prompt)
        self.tell({"type": "user", "message": {"role": "user", "content": prompt}})
        told = self.hear(lambda line: line.get("type") == "result")
        assert not told["is_error"], told
        return told


class AgentProtocol(Talk):
    """The Agent Client Protocol, by which editors drive Gemini CLI."""

    def __init__(self, process, folder):
        super().__init__(process)
        self._number = 0
        self._call("initialize", protocolVersion=1, clientCapabilities={})
        self._session = self._call("session/new", cwd=folder, mcpServers=[])["sessionId"]

    def say(self, prompt):
        print(">", prompt)
        said = [{"type": "text", "text": prompt}]
        return self._call("session/prompt", sessionId=self._session, prompt=said)

    def _call(self, method, **parameters):
        self._number += 1
        call = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}
        self.tell(call)
        told = self.hear(lambda line: line.get("id") == self._number and "method" not in line)
        return told["result"]

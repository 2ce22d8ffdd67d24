"""A client that sends events to the real hook program."""

import json
import os
import sys

import holdfast
from support import fork_server
from support.command_line import Folder

HOME = ".git/holdfast"
ENTRY = os.path.join(os.path.dirname(holdfast.__file__), "hooks", "entry.py")


class HookClient(Folder):
    """A client that fires hooks in a folder."""

    session = "session-1"

    def fire(self, event, raw=None, **fields):
        """Fire an event; return the answer as an object, ``None`` if there is none."""
        message = {
            "session_id": self.session,
            "transcript_path": "/nowhere/transcript.jsonl",
            "cwd": self.path,
            "hook_event_name": event,
            **fields,
        }
        data = json.dumps(message).encode() if raw is None else raw
        done = fork_server.run(
            [sys.executable, "-I", "-S", ENTRY],
            cwd=self.path, env=self.environment, input=data, capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0
        assert done.stderr == b""
        return json.loads(done.stdout) if done.stdout else None

    def briefed(self, source="compact", **fields):
        """Return the briefing that a new context gets; empty if it gets none."""
        answer = self.fire("SessionStart", source=source, **fields)
        if answer is None:
            return ""
        output = answer["hookSpecificOutput"]
        assert output["hookEventName"] == "SessionStart"
        return output["additionalContext"]

    def read(self, path, **fields):
        full = os.path.join(self.path, path)
        return self.fire(
            "PostToolUse", tool_name="Read", tool_input={"file_path": full},
            tool_response={"type": "text"}, **fields,
        )  # fmt: skip

    def log(self):
        path = os.path.join(self.path, HOME, "hook.log")
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    def other(self, session):
        client = HookClient(self.path, self.environment)
        client.session = session
        return client


def break_the_ledger(client):
    ledger = os.path.join(client.path, HOME, "ledger.db")
    os.rename(ledger, f"{ledger}.away")
    os.mkdir(ledger)

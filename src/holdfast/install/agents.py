"""The clients that can be told to run our hook: their files, their events, their words for them.

A team's file is shared between machines, so it has the plain ``holdfast hook``. A person's own
file gets what starts fastest on this machine: the interpreter itself, on the hook's own file.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.json_text import is_encodable
from holdfast.core.refusal import word
from holdfast.errors import Refused
from holdfast.install.hooks import ENTRY, Hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

    Events = tuple[tuple[str, str | None], ...]

TEAM, LOCAL, USER = "team", "local", "user"
SCOPES = (TEAM, LOCAL, USER)
COMMAND = "holdfast hook"
_SHARED_SKILLS = os.path.join(".agents", "skills")
"""Codex and Gemini CLI look for skills in the same folder."""
_TRUST = "Codex runs a hook only after you trusted it, once: it asks at its start, or see /hooks"


class Agent:
    """A client: where its settings are, and what it calls its events."""

    def __init__(
        self,
        name: str,
        files: dict[str, str],
        home: tuple[str, str],
        events: Events,
        enforcing: Events,
        extra: Fields,
        skills: dict[str, str],
        arguments: str = "(what the user asked for)",
        note: str = "",
        at_the_end: Fields | None = None,
    ) -> None:
        self.name = name
        self.files = files
        """Scope to the file: from the root of the work tree, or from the client's own folder."""
        self.home = home
        """The variable that names the client's own folder, and where that is without it."""
        self.events = events
        self.enforcing = enforcing
        self.extra = extra
        """What a handler has besides its command."""
        self.skills = skills
        """Scope to the folder of skills: from the root of the work tree, or from a person's."""
        self.arguments = arguments
        """What stands in a skill for the words that the person called it with."""
        self.note = note
        self.at_the_end = at_the_end or {}
        """What is different for the last hook of a session."""

    def own_folder(self) -> str:
        """Where a person's own settings of this client are."""
        variable, usual = self.home
        return os.path.abspath(os.environ.get(variable) or os.path.expanduser(usual))

    def skills_folder(self, scope: str) -> str | None:
        """Where skills of this scope are; nothing where the client has no such folder."""
        folder = self.skills.get(scope)
        if folder is None or scope != USER:
            return folder
        above = os.path.expanduser("~") if self.name == "codex" else self.own_folder()
        return os.path.abspath(os.path.join(above, folder))

    def hooks(self, scope: str, *, enforce: bool) -> list[Hook]:
        """What the settings of this scope should have."""
        handler = {"type": "command", **self._command(scope), **self.extra}
        events = (*self.events, *(self.enforcing if enforce else ()))
        last = {**handler, **self.at_the_end}
        return [
            Hook(event, matcher, last if event == "SessionEnd" else handler)
            for event, matcher in events
        ]

    def enforceable(self) -> list[str]:
        """What can be insisted on: reading only where the client says what it reads."""
        return ["reading", "stop"] if len(self.enforcing) > 1 else ["stop"]

    def _command(self, scope: str) -> Fields:
        words = fastest() if scope != TEAM else []
        if not words:
            return {"command": COMMAND}
        if self.name == "claude":
            # Without a shell in between, it starts faster, and nothing needs quotes.
            return {"command": words[0], "args": words[1:]}
        return {"command": " ".join([word(part) for part in words])}


def fastest() -> list[str]:
    """The command that starts our hook without a search; nothing where that cannot be written."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    words = [sys.executable or "", "-I", "-S", os.path.join(os.path.dirname(here), *ENTRY)]
    return words if os.path.isabs(words[0]) and all(map(is_encodable, words)) else []


def agent_named(name: str) -> Agent:
    if name not in AGENTS:
        known = ", ".join(AGENTS)
        raise Refused("invalid", f"{name[:60]!r} is no agent; there are {known}", "holdfast init")
    return AGENTS[name]


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude",
            {
                TEAM: os.path.join(".claude", "settings.json"),
                LOCAL: os.path.join(".claude", "settings.local.json"),
                USER: "settings.json",
            },
            ("CLAUDE_CONFIG_DIR", os.path.join("~", ".claude")),
            (
                ("SessionStart", None),
                ("PreCompact", None),
                ("SessionEnd", None),
                ("PostToolUse", "Read"),
            ),
            (("Stop", None), ("PreToolUse", "Edit|Write|MultiEdit|NotebookEdit")),
            {"timeout": 10},
            {TEAM: os.path.join(".claude", "skills"), USER: "skills"},
            "$ARGUMENTS",
        ),
        Agent(
            "codex",
            {TEAM: os.path.join(".codex", "hooks.json"), USER: "hooks.json"},
            ("CODEX_HOME", os.path.join("~", ".codex")),
            (
                ("SessionStart", None),
                ("PreCompact", None),
                ("SessionEnd", None),
            ),
            # It has no tool that reads a file, so whether something was read cannot be seen.
            (("Stop", None),),
            {"timeout": 10},
            {TEAM: _SHARED_SKILLS, USER: _SHARED_SKILLS},
            note=_TRUST,
            # It gives no more, and complains at every start about those who ask for more.
            at_the_end={"timeout": 3},
        ),
        Agent(
            "gemini",
            {
                TEAM: os.path.join(".gemini", "settings.json"),
                USER: os.path.join(".gemini", "settings.json"),
            },
            ("GEMINI_CLI_HOME", "~"),
            (
                ("SessionStart", None),
                ("PreCompress", None),
                ("SessionEnd", None),
                ("BeforeAgent", None),
                ("AfterTool", "read_file|read_many_files"),
            ),
            (("AfterAgent", None), ("BeforeTool", "write_file|replace")),
            {"name": "holdfast", "timeout": 10_000},
            {TEAM: _SHARED_SKILLS, USER: _SHARED_SKILLS},
        ),
    )
}

"""The clients that can run our hook: their files, their events, their options.

A team's file is shared between machines, so it has the plain ``holdfast hook``. A user's own file
gets the command that starts fastest on this machine: the interpreter on the hook's own file.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.json_text import is_encodable
from holdfast.core.refusal import word
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields

    Events = tuple[tuple[str, str | None], ...]

TEAM, LOCAL, USER = "team", "local", "user"
SCOPES = (TEAM, LOCAL, USER)
COMMAND = "holdfast hook"
ENTRY = ("holdfast", "hooks", "entry.py")
HOOKS = "hooks"
_SHARED_SKILLS = os.path.join(".agents", "skills")
"""The folder for skills that Codex and Gemini CLI share."""
_TRUST = "Codex runs a hook only after you trust it: it asks when it starts, or see /hooks"


class Agent:
    """A client: where its settings are, and how it names its events."""

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
        session_end: Fields | None = None,
    ) -> None:
        self.name = name
        self.files = files
        """Scope to path, relative to the work tree or to the client's folder for the user."""
        self.home = home
        """The environment variable with the client's folder for the user, and the default."""
        self.events = events
        self.enforcing = enforcing
        self.extra = extra
        """Fields of a handler besides its command."""
        self.skills = skills
        """Scope to the folder of skills, relative to the work tree or to the user's folder."""
        self.arguments = arguments
        """What a skill has in place of the words that the user typed after its name."""
        self.note = note
        self.session_end = session_end or {}
        """Fields of the ``SessionEnd`` handler that differ."""

    def own_folder(self) -> str:
        """Return the client's folder for the user."""
        variable, usual = self.home
        return os.path.abspath(os.environ.get(variable) or os.path.expanduser(usual))

    def skills_folder(self, scope: str) -> str | None:
        """Return the folder of skills of a scope; ``None`` if the client has none."""
        folder = self.skills.get(scope)
        if folder is None or scope != USER:
            return folder
        above = os.path.expanduser("~") if self.name == "codex" else self.own_folder()
        return os.path.abspath(os.path.join(above, folder))

    def hooks(self, scope: str, *, enforce: bool) -> dict[str, Fields]:
        """Return the group with our hook for each event, for the settings of a scope."""
        groups: dict[str, Fields] = {}
        for event, matcher in (*self.events, *(self.enforcing if enforce else ())):
            handler = {"type": "command", **self._command(scope), **self.extra}
            if event == "SessionEnd":
                handler |= self.session_end
            groups[event] = {**({"matcher": matcher} if matcher else {}), HOOKS: [handler]}
        return groups

    def enforceable(self) -> list[str]:
        """Return what can be enforced: reading only if the client reports what it reads."""
        return ["reading", "stop"] if len(self.enforcing) > 1 else ["stop"]

    def _command(self, scope: str) -> Fields:
        words = fastest_command() if scope != TEAM else []
        if words and self.name == "claude":
            # Without a shell the hook starts faster, and nothing needs quoting.
            return {"command": words[0], "args": words[1:]}
        return {"command": " ".join([word(part) for part in words]) or COMMAND}


def fastest_command() -> list[str]:
    """Return the interpreter and arguments that start our hook; empty if JSON cannot hold them."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    words = [sys.executable or "", "-I", "-S", os.path.join(os.path.dirname(here), *ENTRY)]
    return words if os.path.isabs(words[0]) and all(map(is_encodable, words)) else []


def agent_named(name: str) -> Agent:
    """Return the client of this name; raise ``Refused`` if there is none."""
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
            # Codex has no tool that reads a file, so it cannot report what was read.
            (("Stop", None),),
            {"timeout": 10},
            {TEAM: _SHARED_SKILLS, USER: _SHARED_SKILLS},
            note=_TRUST,
            # Codex allows no more, and warns at every start if a hook asks for more.
            session_end={"timeout": 3},
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

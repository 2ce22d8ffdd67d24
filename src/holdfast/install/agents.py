"""The clients that can run our hook: their files, their events, their options.

A team's file is shared between machines, so it runs ``holdfast`` by name, and nothing on a machine
that has none: a colleague without Holdfast sees no error. A user's own file gets the command that
starts fastest on this machine: the interpreter on the hook's own file.
"""

from __future__ import annotations

import os
import sys

from holdfast.core.json_text import is_encodable
from holdfast.core.refusal import shell_word
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

    from holdfast.core.types import Fields

TEAM, LOCAL, USER = "team", "local", "user"
SCOPES = (TEAM, LOCAL, USER)
HOOK = ("holdfast", "hook")
TEAM_HOOK = "command -v holdfast >/dev/null || exit 0; exec holdfast hook"
"""The clients give it to a shell in any case, so the test costs no process."""
ENTRY = ("holdfast", "hooks", "entry.py")
HOOKS = "hooks"
ENFORCING_EVENTS = {"reading": ("PreToolUse", "BeforeTool"), "stop": ("Stop", "AfterAgent")}
"""The events at which each kind of rule can be enforced."""
_SHARED_SKILLS = os.path.join(".agents", "skills")
"""The folder for skills that Codex and Gemini CLI share."""


class Agent:
    """A client: where its settings are, and how it names its events."""

    name = ""
    title = ""
    """The client's name in a sentence."""
    files: ClassVar[dict[str, str]] = {}
    """Scope to path, relative to the work tree or to the client's folder for the user."""
    home = ("", "~")
    """The environment variable with the client's folder for the user, and the default."""
    events: ClassVar[dict[str, str | None]] = {}
    """Event to the tools that it is for; ``None`` for all."""
    enforcing: ClassVar[dict[str, str | None]] = {}
    """The events at which a rule can be enforced."""
    options: ClassVar[Fields] = {"timeout": 10}
    """Fields of a handler besides its command."""
    session_end: ClassVar[Fields] = {}
    """Fields of the ``SessionEnd`` handler that differ."""
    skills: ClassVar[dict[str, str]] = {TEAM: _SHARED_SKILLS, USER: _SHARED_SKILLS}
    """Scope to the folder of skills, relative in the same way."""
    has_args = False
    """True if a handler can have its command as words: it starts faster without a shell."""
    arguments = "(what the user asked for)"
    """The text in a skill that stands for the words that the user typed after its name."""
    skill_call = "the skill {} with FILE"
    """How a user calls a skill."""
    note = ""
    without_status_line = ""
    """Why the client shows no line of ours; empty if it runs a command for its status line."""

    def own_folder(self) -> str:
        """Return the client's folder for the user."""
        variable, default = self.home
        return os.path.abspath(os.environ.get(variable) or os.path.expanduser(default))

    def skills_folder(self, scope: str) -> str | None:
        """Return the folder of skills of a scope; ``None`` if the client has none."""
        folder = self.skills.get(scope)
        if folder is None or scope != USER:
            return folder
        return os.path.abspath(os.path.join(self.own_folder(), os.path.expanduser(folder)))

    def hooks(self, scope: str, *, enforce: bool) -> dict[str, Fields]:
        """Return the group with our hook for each event, for the settings of a scope."""
        groups: dict[str, Fields] = {}
        for event, matcher in {**self.events, **(self.enforcing if enforce else {})}.items():
            handler = {"type": "command", **self.command(scope), **self.options}
            if event == "SessionEnd":
                handler |= self.session_end
            groups[event] = {**({"matcher": matcher} if matcher else {}), HOOKS: [handler]}
        return groups

    def command(self, scope: str) -> Fields:
        """Return the fields of a handler that start our hook."""
        words = fastest_command() if scope != TEAM else []
        if self.has_args and words:
            return {"command": words[0], "args": words[1:]}
        return {"command": " ".join([shell_word(word) for word in words]) or TEAM_HOOK}

    def enforceable(self) -> list[str]:
        """Return the kinds of rules that can be enforced."""
        kinds = ENFORCING_EVENTS.items()
        return [kind for kind, events in kinds if not self.enforcing.keys().isdisjoint(events)]


class Claude(Agent):
    """Claude Code."""

    name = "claude"
    title = "Claude Code"
    files: ClassVar = {
        TEAM: os.path.join(".claude", "settings.json"),
        LOCAL: os.path.join(".claude", "settings.local.json"),
        USER: "settings.json",
    }
    home = ("CLAUDE_CONFIG_DIR", os.path.join("~", ".claude"))
    events: ClassVar = {
        "SessionStart": None,
        "PreCompact": None,
        "SessionEnd": None,
        "PostToolUse": "Read",
        "UserPromptSubmit": None,
    }
    enforcing: ClassVar = {"Stop": None, "PreToolUse": "Edit|Write|MultiEdit|NotebookEdit"}
    skills: ClassVar = {TEAM: os.path.join(".claude", "skills"), USER: "skills"}
    has_args = True
    arguments = "$ARGUMENTS"
    skill_call = "/{} FILE"


class Codex(Agent):
    """Codex CLI. It has no tool that reads a file, so it cannot report what was read."""

    name = "codex"
    title = "Codex"
    files: ClassVar = {TEAM: os.path.join(".codex", "hooks.json"), USER: "hooks.json"}
    home = ("CODEX_HOME", os.path.join("~", ".codex"))
    events: ClassVar = {
        "SessionStart": None,
        "PreCompact": None,
        "SessionEnd": None,
        "UserPromptSubmit": None,
    }
    enforcing: ClassVar = {"Stop": None}
    # Codex allows no more, and warns at every start if a hook asks for more.
    session_end: ClassVar = {"timeout": 3}
    skills: ClassVar = {TEAM: _SHARED_SKILLS, USER: os.path.join("~", _SHARED_SKILLS)}
    note = "Codex runs a hook only after you trust it: it asks when it starts, or see /hooks"
    without_status_line = (
        "Codex runs no command for its status line: tui.status_line and tui.terminal_title take "
        "its own items alone, such as git-branch and context-remaining"
    )


class Gemini(Agent):
    """Gemini CLI. It counts milliseconds."""

    name = "gemini"
    title = "Gemini CLI"
    files: ClassVar = dict.fromkeys((TEAM, USER), os.path.join(".gemini", "settings.json"))
    home = ("GEMINI_CLI_HOME", "~")
    events: ClassVar = {
        "SessionStart": None,
        "PreCompress": None,
        "SessionEnd": None,
        "BeforeAgent": None,
        "AfterTool": "read_file|read_many_files",
    }
    enforcing: ClassVar = {"AfterAgent": None, "BeforeTool": "write_file|replace"}
    options: ClassVar = {"name": "holdfast", "timeout": 10_000}
    without_status_line = (
        "Gemini CLI runs no command for its footer: ui.footer.items takes its own items alone"
    )


AGENTS: dict[str, Agent] = {agent.name: agent for agent in (Claude(), Codex(), Gemini())}


def agent_named(name: str) -> Agent:
    """Return the client of this name; raise ``Refused`` if there is none."""
    if name not in AGENTS:
        names = ", ".join(AGENTS)
        raise Refused(
            "invalid", f"{name[:60]!r} is not an agent; the agents are {names}", "holdfast init"
        )
    return AGENTS[name]


def is_our_program(words: list[str]) -> bool:
    """Return True if words start Holdfast, by its name or by the file that a client runs."""
    if len(words) == 1:
        return os.path.basename(words[0]) == "holdfast"
    is_entry = len(words) > 1 and tuple(words[-1].split(os.sep)[-3:]) == ENTRY
    return is_entry and all(word.startswith("-") for word in words[1:-1])


def fastest_command() -> list[str]:
    """Return the interpreter and arguments that start our hook; empty if JSON cannot hold them."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    words = [sys.executable or "", "-I", "-S", os.path.join(os.path.dirname(here), *ENTRY)]
    return words if os.path.isabs(words[0]) and all(map(is_encodable, words)) else []

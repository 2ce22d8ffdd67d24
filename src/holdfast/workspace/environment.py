"""Tell an agent's client from a person by the environment variables that clients set.

Every client marks the processes it starts. A process without a mark was started by a person or by
their script. Variables that people set themselves, such as ``CODEX_HOME``, are no marks.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MARKS = {
    "CLAUDECODE": "Claude Code",
    "CLAUDE_CODE_SESSION_ID": "Claude Code",
    "CLAUDE_CODE_ENTRYPOINT": "Claude Code",
    "CLAUDE_PROJECT_DIR": "Claude Code",
    "CLAUDE_PID": "Claude Code",
    "CODEX_SESSION_ID": "Codex",
    "CODEX_THREAD_ID": "Codex",
    "CODEX_SANDBOX": "Codex",
    "CODEX_SANDBOX_NETWORK_DISABLED": "Codex",
    "CODEX_CI": "Codex",
    "GEMINI_CLI": "Gemini CLI",
    "GEMINI_SESSION_ID": "Gemini CLI",
    "CURSOR_AGENT": "Cursor",
    "COPILOT_CLI": "Copilot CLI",
    "OPENCODE": "OpenCode",
    "CLINE_ACTIVE": "Cline",
    "AUGMENT_AGENT": "Augment",
}
_PROGRAMS = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "cursor-agent": "Cursor",
}
"""Names of the clients' own processes, which have no mark themselves."""
_GENERIC_MARKS = ("AI_AGENT", "AGENT")
"""Variables in which any other client can give its name."""


def client_of(environ: Mapping[str, str]) -> str | None:
    """Return the name of the client that started this process; ``None`` if a person did.

    A variable that is set and empty is no mark: scripts clear a mark that way.
    """
    for variable, client in _MARKS.items():
        if environ.get(variable):
            return client
    return next((environ[name] for name in _GENERIC_MARKS if environ.get(name)), None)


def client_above() -> str | None:
    """Return the client that started this process or one above it; ``None`` if a person did.

    A shell that a client started can remove its mark (``env -u``) and make a terminal (``script``),
    but it cannot change the environment of the processes above.
    """
    from holdfast.system.process_tree import ancestors, process_facts

    own = client_of(os.environ)
    above = (_client_of_process(*process_facts(pid)) for pid in ancestors())
    return own or next(filter(None, above), None)


def _client_of_process(name: str, environ: Mapping[str, str]) -> str | None:
    return _PROGRAMS.get(name) or client_of(environ)

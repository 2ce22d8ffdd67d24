"""What a chapter is made of: a text is a command line, everything else is one of these."""

from typing import NamedTuple

SESSION = "session-1"


class Run(NamedTuple):
    """A command line that is not typed as all others are."""

    line: str
    session: str = SESSION
    folder: str = ""
    facts_only: bool = False
    """Whether only what is checked is kept of its text: the rest tells of processes and bytes."""
    is_text_only: bool = False
    into: str = ""
    """The file that its standard output goes to."""


class Fire(NamedTuple):
    """An event of a client, to ``holdfast hook``; ``{root}`` in a text is the repository."""

    event: str
    fields: dict[str, object]
    session: str = SESSION


class Serve(NamedTuple):
    """A talk with a server: requests, as a method and its parameters."""

    line: str
    requests: tuple[tuple[str, dict[str, object]], ...]

    def messages(self):
        for number, (method, params) in enumerate(self.requests, 1):
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            yield message if method.startswith("notifications/") else {**message, "id": number}


class Write(NamedTuple):
    """A person writes a file."""

    path: str
    text: str


class Replace(NamedTuple):
    """A person edits a file; its path may have ``*`` in it."""

    path: str
    old: str
    new: str


class Remove(NamedTuple):
    """A person removes a file or a folder; its path may have ``*`` in it."""

    path: str


class Git(NamedTuple):
    """A person types a command of git."""

    line: str


class Wait(NamedTuple):
    """Nothing happens for some days."""

    days: int


class Look(NamedTuple):
    """Show the files that changed since the last look; every chapter ends with one."""


def call(tool, **arguments):
    """Return the request that calls a tool of a server."""
    return "tools/call", {"name": tool, "arguments": arguments}


def hello(version="2025-11-25"):
    """Return the requests that a client begins with."""
    client = {"name": "plain", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return (("initialize", params), ("notifications/initialized", {}))

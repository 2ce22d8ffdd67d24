"""``holdfast mcp`` and ``holdfast mcp memory``: servers for agents, until their client ends."""

from __future__ import annotations

import os

from holdfast.cli.answer import Silence
from holdfast.cli.grammar import MEMORY_FILE, command
from holdfast.cli.main import open_keeper, wait_s
from holdfast.cli.parser import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.answer import Answer
    from holdfast.cli.types import Arguments
    from holdfast.keeper import Keeper


@command(
    "mcp",
    "serve the workflows to an agent over MCP, on standard input and output",
    examples=("holdfast mcp",),
    workspace=False,
)
def workflows(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.mcp.server import project_folder, serve
    from holdfast.mcp.workflows import WorkflowApp

    def open_shared(share: Keeper | None) -> Keeper:
        return open_keeper(args, project_folder(), by="mcp", client=os.getppid(), share=share)

    serve(WorkflowApp(open_shared))
    return Silence()


@command(
    "mcp memory",
    "serve a memory graph over MCP, in place of the reference Memory server",
    MEMORY_FILE,
    examples=("holdfast mcp memory", "holdfast mcp memory --file notes/memory.jsonl"),
    workspace=False,
)
def memory(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.mcp.memory import MemoryApp
    from holdfast.mcp.server import project_folder, serve

    serve(MemoryApp(args["memory_file"], project_folder(), wait_s()))
    return Silence()


def _check_client(args: Arguments) -> None:
    """Raise ``Usage`` if a person started the server on a terminal."""
    if os.isatty(0):
        message = f"{args['command']}: a client speaks on standard input; this is a terminal"
        raise Usage(message, f"claude mcp add holdfast -- holdfast {args['command']}")

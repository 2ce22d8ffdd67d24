"""``holdfast mcp`` and ``holdfast mcp memory``: servers for agents, until their client goes."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.keeper import Keeper

_SILENCE: Answer = {"kind": "silence", "data": {}}


def workflows(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.mcp.server import serve
    from holdfast.mcp.workflows import WorkflowApp, folder

    def opened(share: Keeper | None) -> Keeper:
        from holdfast.cli.main import open_keeper

        return open_keeper(args, folder(), by="mcp", client=os.getppid(), share=share)

    serve(WorkflowApp(opened))
    return _SILENCE


def memory(args: Arguments) -> Answer:
    _check_client(args)
    from holdfast.cli.main import wait_s
    from holdfast.mcp.memory import MemoryApp
    from holdfast.mcp.server import serve
    from holdfast.mcp.workflows import folder

    serve(MemoryApp(args["memory_file"], folder(), wait_s()))
    return _SILENCE


def _check_client(args: Arguments) -> None:
    if os.isatty(0):
        from holdfast.cli.parser import Usage

        message = f"{args['command']}: a client speaks on standard input; this is a terminal"
        raise Usage(message, f"claude mcp add holdfast -- holdfast {args['command']}")

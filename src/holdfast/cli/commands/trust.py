"""``holdfast trust``: a person reads the commands of a repository and approves them one by one.

The one command that asks. It asks only on a terminal, and only for exactly what it shows.
"""

from __future__ import annotations

import sys

from holdfast.answers import json
from holdfast.answers.text import clean
from holdfast.cli.answer import Answer
from holdfast.cli.grammar import command, flag
from holdfast.cli.screen import note_lines
from holdfast.errors import Refused
from holdfast.workspace.trust import NOT_COVERED, describe_gate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.keeper import Keeper
    from holdfast.workspace.trust import CommandRequest


@command(
    "trust",
    "read and approve the commands that this repository wants to run",
    flag("--list", "only list them, and which are approved"),
    flag("--revoke", "forget every approval for this workspace"),
    examples=("holdfast trust", "holdfast trust --list --json"),
)
def trust(keeper: Keeper, args: Arguments) -> Answer:
    if args["revoke"]:
        count = keeper.revoke_trust()
        done = f"{count} approval{'s' if count != 1 else ''} forgotten"
        return Answer(lambda: {"revoked": done}, lambda _screen: [done])
    requests, notes = keeper.wishes()
    pending = [request for request in requests if not request.approved]
    if pending and not args["list"] and not args["json"]:
        keeper.approve([request.command for request in pending if _ask(request)])
        requests, _ = keeper.wishes()

    def lines(screen: Screen) -> Iterator[str]:
        yield from _request_lines(screen, requests)
        yield from note_lines(screen, notes)

    return Answer(lambda: json.trust_requests(requests, NOT_COVERED, notes), lines)


def _request_lines(screen: Screen, requests: list[CommandRequest]) -> Iterator[str]:
    for request in requests:
        status = "approved" if request.approved else "not approved"
        mark = screen.mark("completed" if request.approved else "pending")
        about = screen.paint(clean(f"{status}{screen.dot()}{request.source}"), "dim")
        yield f"{mark} {clean(f'{request.gate}: {request.command}')}  {about}"
    if requests:
        yield screen.paint(f"  note: {NOT_COVERED}", "warn")
    else:
        yield "This repository wants no command run."


def _ask(request: CommandRequest) -> bool:
    """Ask the person on the terminal; raise ``Refused`` if there is none."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused(
            "needs_terminal",
            f"trust: only a person on a terminal can approve {request.command!r}"
            f" ({request.source})",
            "run holdfast trust in a terminal; holdfast trust --list shows all of them",
        )
    print(f"\n{clean(request.source)} wants {clean(describe_gate(request.gate))} to run:\n")
    print(f"    {clean(request.command)}\n")
    print("Approve exactly this command, for this workspace? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")

"""``holdfast trust``: a person reads the commands of a repository and approves them one by one.

The one command that asks. It asks only on a terminal, and only for exactly what it shows.
"""

from __future__ import annotations

import sys

from holdfast.cli.terminal_text import clean
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.keeper import Keeper
    from holdfast.workspace.trust import Wish

_YES = ("y", "yes")


def trust(keeper: Keeper, args: Arguments) -> Answer:
    from holdfast.workspace.trust import NOT_COVERED

    if args["revoke"]:
        count = keeper.revoke_trust()
        said = f"{count} approval{'s' if count != 1 else ''} forgotten"
        return {"kind": "text", "data": {"revoked": said}}
    wishes, notes = keeper.wishes()
    asked = [wish for wish in wishes if not wish.approved]
    if asked and not args["list"] and not args["json"]:
        keeper.approve([wish.command for wish in asked if _is_approved(wish)])
        wishes, _ = keeper.wishes()
    data = {"wishes": wishes, "notes": notes, "not_covered": NOT_COVERED}
    return {"kind": "wishes", "data": data}


def wish_lines(screen: Screen, wishes: list[Wish], not_covered: str) -> Iterator[str]:
    """A line for each command, and what an approval does not cover."""
    for wish in wishes:
        said = f"{wish.gate}: {wish.command}"
        facts = "approved" if wish.approved else "not approved"
        mark = screen.mark("completed" if wish.approved else "pending")
        about = screen.paint(clean(f"{facts}{screen.dot()}{wish.source}"), "dim")
        yield f"{mark} {clean(said)}  {about}"
    if not wishes:
        yield "This repository wants no command run."
    else:
        yield screen.paint(f"  note: {not_covered}", "warn")


def _is_approved(wish: Wish) -> bool:
    from holdfast.workspace.trust import named

    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused(
            "needs_terminal",
            f"trust: only a person on a terminal can approve {wish.command!r} ({wish.source})",
            "run holdfast trust in a terminal; holdfast trust --list shows all of them",
        )
    print(f"\n{clean(wish.source)} wants {clean(named(wish.gate))} to run:\n")
    print(f"    {clean(wish.command)}\n")
    print("Approve exactly this command, for this workspace? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in _YES

"""``holdfast hook``: answer a client's event, or explain what the answer would be."""

from __future__ import annotations

import os

from holdfast.answers.text import clean
from holdfast.cli.answer import Answer, Silence
from holdfast.cli.grammar import command, option
from holdfast.cli.parser import Usage
from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.screen import Screen
    from holdfast.cli.types import Arguments
    from holdfast.core.types import Fields


@command(
    "hook",
    "answer an event of an agent's client, read from standard input",
    option("--explain", "EVENT", "tell what would be done here, such as SessionStart"),
    examples=("holdfast hook --explain SessionStart",),
    workspace=False,
)
def hook(args: Arguments) -> Answer:
    if args["explain"] is not None:
        return _explain(args["explain"], args["session"])
    if os.isatty(0):
        message = "hook: a client says on standard input what happened; this is a terminal"
        raise Usage(message, "holdfast hook --explain SessionStart")
    from holdfast.hooks.quick_check import main

    main()
    return Silence()


def _explain(event: str, session: str | None) -> Answer:
    from holdfast.hooks.handlers import EVENTS, HookCall, plan_for
    from holdfast.hooks.quick_check import folder_of
    from holdfast.workspace.location import find

    if event not in EVENTS:
        raise Refused(
            "not_found",
            f"hook: Holdfast has no part in {event[:60]!r}; it has in {', '.join(EVENTS)}",
            "holdfast hook --explain SessionStart",
        )
    message = {"hook_event_name": event, "cwd": os.getcwd(), "stop_hook_active": False}
    if session:
        message["session_id"] = session
    plan = plan_for(HookCall(message, find(folder_of(message)).root))
    answer: Fields = plan.answer or {}
    context = answer.get("hookSpecificOutput", {}).get("additionalContext", "")

    def lines(screen: Screen) -> Iterator[str]:
        yield f"{screen.mark('in_progress')} {clean(plan.summary)}"
        if context:
            yield ""
            yield from [clean(line) for line in context.split("\n")]

    return Answer(lambda: {"does": plan.summary, "answer": answer, "context": context}, lines)

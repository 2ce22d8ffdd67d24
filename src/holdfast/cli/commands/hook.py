"""``holdfast hook``: the answer to a client's event, and what the answer would be."""

from __future__ import annotations

import os

from holdfast.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments


def hook(args: Arguments) -> Answer:
    if args["explain"] is None:
        if os.isatty(0):
            from holdfast.cli.parser import Usage

            message = "hook: a client says on standard input what happened; this is a terminal"
            raise Usage(message, "holdfast hook --explain SessionStart")
        from holdfast.hooks.quick_check import main

        main()
        return {"kind": "silence", "data": {}}
    from holdfast.hooks.handlers import EVENTS, HookCall, plan_for
    from holdfast.hooks.quick_check import folder_of
    from holdfast.workspace.location import find

    event = args["explain"]
    if event not in EVENTS:
        raise Refused(
            "not_found",
            f"hook: Holdfast has no part in {event[:60]!r}; it has in {', '.join(EVENTS)}",
            "holdfast hook --explain SessionStart",
        )
    told = {"hook_event_name": event, "cwd": os.getcwd(), "stop_hook_active": False}
    if args["session"]:
        told["session_id"] = args["session"]
    plan = plan_for(HookCall(told, find(folder_of(told)).root))
    answer = plan.answer or {}
    context = answer.get("hookSpecificOutput", {}).get("additionalContext", "")
    return {"kind": "plan", "data": {"does": plan.summary, "answer": answer, "context": context}}

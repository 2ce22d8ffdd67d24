"""``holdfast init`` and ``holdfast uninstall``: the hooks of a client, in and out again."""

from __future__ import annotations

from holdfast.cli.parser import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.shapes import Answer, Arguments
    from holdfast.install import Outcome


def init(args: Arguments) -> Answer:
    from holdfast.install import init as put_in

    agent, scope = _agent(args) or "claude", _scope(args) or "team"
    outcome = put_in(agent=agent, scope=scope, enforce=args["enforce"], dry_run=args["dry_run"])
    return _answer(outcome, args, agent, scope)


def uninstall(args: Arguments) -> Answer:
    from holdfast.install import uninstall as take_out

    agent, scope = _agent(args), _scope(args)
    outcome = take_out(agent=agent, scope=scope, dry_run=args["dry_run"])
    return _answer(outcome, args, agent, scope)


def _answer(outcome: Outcome, args: Arguments, agent: str | None, scope: str | None) -> Answer:
    data = {
        "files": [change.as_fields() for change in outcome.changes],
        "agent": agent,
        "scope": scope,
        "dry_run": args["dry_run"],
        "notes": outcome.notes,
    }
    return {"kind": "settings", "data": data}


def _agent(args: Arguments) -> str | None:
    from holdfast.install.agents import AGENTS

    agent: str | None = args["agent"]
    if agent is not None and agent not in AGENTS:
        known = ", ".join(AGENTS)
        raise Usage(f"--agent is one of {known}, not {agent[:60]!r}", f"holdfast {args['command']}")
    return agent


def _scope(args: Arguments) -> str | None:
    if args["local"] and args["user"]:
        message = "--local and --user name two different files: give one of them"
        raise Usage(message, f"holdfast {args['command']} --local")
    return "local" if args["local"] else "user" if args["user"] else None

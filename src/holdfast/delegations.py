"""Delegations, for the library: which agent was given what, and what can be learned from it."""

from __future__ import annotations

from holdfast.core.delegation import summary
from holdfast.small import Noted, Small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields


class Delegations:
    """The delegations of a workspace."""

    def __init__(self, caller: Caller) -> None:
        self._small = Small(caller, "delegation")

    def record(
        self,
        agent: str,
        *,
        outcome: str,
        model: str | None = None,
        task_type: str | None = None,
        complexity: str | None = None,
        duration_ms: int | None = None,
        id: str | None = None,
    ) -> Noted:
        """What an agent was given, and how it ended."""
        told = {"model": model, "task_type": task_type, "complexity": complexity}
        args = {"agent": agent, **told, "outcome": outcome, "duration_ms": duration_ms}
        return self._do("record_delegation", args, id)

    def escalate(
        self,
        from_agent: str,
        to_agent: str,
        reason: str,
        *,
        resolved: bool | None = None,
        id: str | None = None,
    ) -> Noted:
        """One agent handed over to another."""
        args = {"from": from_agent, "to": to_agent, "reason": reason, "resolved": resolved}
        return self._do("escalate_delegation", args, id)

    def override(self, suggested: str, chosen: str, *, id: str | None = None) -> Noted:
        """A person chose another agent than the one that was suggested."""
        return self._do("override_delegation", {"suggested": suggested, "chosen": chosen}, id)

    def routing(self, suggested: str, chosen: str, intent: str, *, id: str | None = None) -> Noted:
        """A person chose another workflow than the one that was suggested."""
        args = {"suggested": suggested, "chosen": chosen, "intent": intent}
        return self._do("correct_routing", args, id)

    def list(self, *, agent: str | None = None) -> Fields:
        """The newest entries, oldest first, and what they tell; of one agent or of all."""
        state = self._small.state()
        entries = [entry for entry in state["entries"] if agent in (None, *_agents(entry))]
        return {
            "entries": entries,
            "earlier": state["entries_earlier"],
            "summary": summary(entries),
        }

    def _do(self, command: str, args: Fields, id: str | None) -> Noted:
        given = {name: value for name, value in args.items() if value is not None}
        return self._small.do(command, given, id=id)


def _agents(entry: Fields) -> list[object]:
    """Everyone whom an entry is about."""
    return [entry.get(name) for name in ("agent", "from", "to", "suggested", "chosen")]

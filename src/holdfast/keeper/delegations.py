"""Delegations, for the library: which agent was given what, and what can be learned from it."""

from __future__ import annotations

from holdfast.core.delegation import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.keeper.session import Receipt, Session

_LOG = "delegation"


class Delegations:
    """The delegations of a workspace."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
    ) -> Receipt:
        """Record what an agent was given, and how it ended."""
        args = {
            "agent": agent,
            "model": model,
            "task_type": task_type,
            "complexity": complexity,
            "outcome": outcome,
            "duration_ms": duration_ms,
        }
        return self._do("record_delegation", args, id)

    def escalate(
        self,
        from_agent: str,
        to_agent: str,
        reason: str,
        *,
        resolved: bool | None = None,
        id: str | None = None,
    ) -> Receipt:
        """Record that one agent handed over to another."""
        args = {"from": from_agent, "to": to_agent, "reason": reason, "resolved": resolved}
        return self._do("escalate_delegation", args, id)

    def override(self, suggested: str, chosen: str, *, id: str | None = None) -> Receipt:
        """Record that a person chose another agent than the one that was suggested."""
        return self._do("override_delegation", {"suggested": suggested, "chosen": chosen}, id)

    def routing(
        self, suggested: str, chosen: str, intent: str, *, id: str | None = None
    ) -> Receipt:
        """Record that a person chose another workflow than the one that was suggested."""
        args = {"suggested": suggested, "chosen": chosen, "intent": intent}
        return self._do("correct_routing", args, id)

    def list(self, *, agent: str | None = None) -> Fields:
        """Return the newest entries, oldest first, and a summary; of one agent or of all."""
        state = self._session.log_state(_LOG)
        entries = [entry for entry in state["entries"] if agent in (None, *_agents(entry))]
        return {
            "entries": entries,
            "earlier": state["entries_earlier"],
            "summary": summary(entries),
        }

    def _do(self, command: str, args: Fields, id: str | None) -> Receipt:
        known = {name: value for name, value in args.items() if value is not None}
        return self._session.do_log(_LOG, command, known, id=id)


def _agents(entry: Fields) -> list[object]:
    """Return everyone whom an entry is about."""
    return [entry.get(name) for name in ("agent", "from", "to", "suggested", "chosen")]

"""The interview and delegation logs, for the library."""

from __future__ import annotations

from holdfast.core.logs import summarize_delegations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Delegation, Fields, Interview
    from holdfast.keeper.session import Receipt, Session


class Interviews:
    """The interviews of a workspace."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def record(
        self,
        skill: str,
        confidence: float,
        *,
        dimensions: dict[str, float] | None = None,
        questions: int = 0,
        id: str | None = None,
    ) -> Receipt:
        """Record how sure a skill was in the end, all in all and in each dimension."""
        args = {
            "skill": skill,
            "confidence": confidence,
            "dimensions": dimensions or {},
            "questions_asked": questions,
        }
        return self._session.do_log("interview", "record_interview", args, id=id)

    def skip(self, skill: str, reason: str, *, id: str | None = None) -> Receipt:
        """Record that the user did not want to be asked."""
        args = {"skill": skill, "reason": reason}
        return self._session.do_log("interview", "skip_interview", args, id=id)

    def show(self) -> Interview:
        """Return the newest interviews, and those that nobody wanted."""
        state: Interview = self._session.log_state("interview")
        return state


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
        state: Delegation = self._session.log_state("delegation")
        entries = state["entries"]
        if agent is not None:
            names = ("agent", "from", "to", "suggested", "chosen")
            entries = [entry for entry in entries if agent in map(entry.get, names)]
        return {
            "entries": entries,
            "earlier": state["entries_earlier"],
            "summary": summarize_delegations(entries),
        }

    def _do(self, command: str, args: Fields, id: str | None) -> Receipt:
        known = {name: value for name, value in args.items() if value is not None}
        return self._session.do_log("delegation", command, known, id=id)

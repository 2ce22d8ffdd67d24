"""Interviews, for the library: how sure a skill was of what it was asked to do."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.log_types import Interview
    from holdfast.keeper.session import Receipt, Session

_LOG = "interview"


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
        return self._session.do_log(_LOG, "record_interview", args, id=id)

    def skip(self, skill: str, reason: str, *, id: str | None = None) -> Receipt:
        """Record that the user did not want to be asked."""
        args = {"skill": skill, "reason": reason}
        return self._session.do_log(_LOG, "skip_interview", args, id=id)

    def show(self) -> Interview:
        """Return the newest interviews, and those that nobody wanted."""
        state: Interview = self._session.log_state(_LOG)
        return state

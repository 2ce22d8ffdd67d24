"""Interviews, for the library: how sure a skill was of what it was asked to do."""

from __future__ import annotations

from holdfast.small import Noted, Small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.small_shapes import Interview


class Interviews:
    """The interviews of a workspace."""

    def __init__(self, caller: Caller) -> None:
        self._small = Small(caller, "interview")

    def record(
        self,
        skill: str,
        confidence: float,
        *,
        dimensions: dict[str, float] | None = None,
        questions: int = 0,
        id: str | None = None,
    ) -> Noted:
        """How sure a skill was in the end, all in all and in each dimension."""
        args = {
            "skill": skill,
            "confidence": confidence,
            "dimensions": dimensions or {},
            "questions_asked": questions,
        }
        return self._small.do("record_interview", args, id=id)

    def skip(self, skill: str, reason: str, *, id: str | None = None) -> Noted:
        """The user did not want to be asked."""
        return self._small.do("skip_interview", {"skill": skill, "reason": reason}, id=id)

    def show(self) -> Interview:
        """The newest interviews, and those that nobody wanted."""
        state: Interview = self._small.state()  # type: ignore[assignment]
        return state

"""The part of the keeper that is not about workflows: what a workspace keeps beside them.

Each matter has a room of its own, which is opened when somebody asks for it.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields
    from holdfast.initiatives.initiatives import Initiatives
    from holdfast.keeper.delegations import Delegations
    from holdfast.keeper.interviews import Interviews
    from holdfast.keeper.session import Receipt, Session
    from holdfast.keeper.store import Store
    from holdfast.layers.memory.memory_file import Memory
    from holdfast.loops.loops import Loops


class Beside:
    """What a workspace keeps beside its workflows."""

    store: Store
    _session: Session

    def noticed(self) -> list[str]:
        """What was noticed since the last answer: edits that were adopted or refused, and more."""
        return self.store.take_notes()

    def interviews(self) -> Interviews:
        """How sure the skills were of what they were asked to do."""
        from holdfast.keeper.interviews import Interviews

        return Interviews(self._session)

    def memory(self) -> Memory:
        """The project's ``MEMORY.md``."""
        from holdfast.layers.memory.memory_file import Memory

        return Memory(self._session)

    def remember(
        self, text: str, *, kind: str | None = None, section: str | None = None,
        id: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Keeps a pattern, a preference or an insight for all later sessions."""
        args = {"text": text, "kind": kind, "section": section}
        return self._session.do_log("learning", "remember", args, id=id)

    def note_forge(self, key: str, text: str, *, id: str | None = None) -> Receipt:
        """One more line of the forge context."""
        args = {"key": key, "text": text}
        return self._session.do_log("forge", "note_forge", args, id=id)

    def forge(self, *, key: str | None = None) -> list[Fields]:
        """The forge context, oldest first; of one key or of all."""
        entries: list[Fields] = self._session.log_state("forge")["entries"]
        return [entry for entry in entries if key in (None, entry["key"])]

    def learnings(self) -> list[Fields]:
        """What was learned, oldest first."""
        learnings: list[Fields] = self._session.log_state("learning")["learnings"]
        return learnings

    def delegations(self) -> Delegations:
        """Which agent was given what, and how that went."""
        from holdfast.keeper.delegations import Delegations

        return Delegations(self._session)

    def initiatives(self) -> Initiatives:
        """Goals that last for months, with their milestones."""
        from holdfast.initiatives.initiatives import Initiatives

        return Initiatives(self._session)

    def initiative_line(self) -> str:
        """The current initiative in two lines, for a session without a workflow."""
        from holdfast.initiatives.workflow_link import in_a_line

        return in_a_line(self._session)

    def resume_initiative(self) -> list[str]:
        """Compares the sources of the current initiative, if there is one; what was noticed.

        The workflow is resumed by then, so what cannot be read here is told and no more.
        """
        from holdfast.initiatives.workflow_link import is_known

        try:
            if is_known(self._session):
                self.initiatives().resume()
        except HoldfastError as error:
            return [*self.store.take_notes(), f"initiative: {error.message}: {error.hint}"]
        return self.store.take_notes()

    def loops(self) -> Loops:
        """The loops of this workspace: units in iterations, confirmed and verified."""
        from holdfast.loops.loops import Loops

        return Loops(self._session)

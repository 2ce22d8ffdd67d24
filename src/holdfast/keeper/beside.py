"""The part of the keeper that is not about workflows: what a workspace keeps beside them.

Each matter has a room of its own, which is opened when somebody asks for it.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.caller import Caller
    from holdfast.core.shapes import Fields
    from holdfast.delegations import Delegations
    from holdfast.initiatives.keeping import Initiatives
    from holdfast.interviews import Interviews
    from holdfast.loops.keeping import Loops
    from holdfast.memory.layer import Memory
    from holdfast.small import Noted


class Beside:
    """What a workspace keeps beside its workflows."""

    _caller: Caller

    def noticed(self) -> list[str]:
        """What was noticed since the last answer: edits that were adopted or refused, and more."""
        return self._caller.notes()

    def interviews(self) -> Interviews:
        """How sure the skills were of what they were asked to do."""
        from holdfast.interviews import Interviews

        return Interviews(self._caller)

    def memory(self) -> Memory:
        """The project's ``MEMORY.md``."""
        from holdfast.memory.layer import Memory

        return Memory(self._caller)

    def remember(
        self, text: str, *, kind: str | None = None, section: str | None = None,
        id: str | None = None,
    ) -> Noted:  # fmt: skip
        """Keeps a pattern, a preference or an insight for all later sessions."""
        from holdfast.small import Small

        args = {"text": text, "kind": kind, "section": section}
        return Small(self._caller, "learning").do("remember", args, id=id)

    def note_forge(self, key: str, text: str, *, id: str | None = None) -> Noted:
        """One more line of the forge context."""
        from holdfast.small import Small

        return Small(self._caller, "forge").do("note_forge", {"key": key, "text": text}, id=id)

    def forge(self, *, key: str | None = None) -> list[Fields]:
        """The forge context, oldest first; of one key or of all."""
        from holdfast.small import Small

        entries: list[Fields] = Small(self._caller, "forge").state()["entries"]
        return [entry for entry in entries if key in (None, entry["key"])]

    def learnings(self) -> list[Fields]:
        """What was learned, oldest first."""
        from holdfast.small import Small

        found: list[Fields] = Small(self._caller, "learning").state()["learnings"]
        return found

    def delegations(self) -> Delegations:
        """Which agent was given what, and how that went."""
        from holdfast.delegations import Delegations

        return Delegations(self._caller)

    def initiatives(self) -> Initiatives:
        """Goals that last for months, with their milestones."""
        from holdfast.initiatives.keeping import Initiatives

        return Initiatives(self._caller)

    def initiative_line(self) -> str:
        """The current initiative in two lines, for a session without a workflow."""
        from holdfast.initiatives.belonging import in_a_line

        return in_a_line(self._caller)

    def resume_initiative(self) -> list[str]:
        """Compares the sources of the current initiative, if there is one; what was noticed.

        The workflow is resumed by then, so what cannot be read here is told and no more.
        """
        from holdfast.initiatives.belonging import is_known

        try:
            if is_known(self._caller):
                self.initiatives().resume()
        except HoldfastError as error:
            return [*self._caller.notes(), f"initiative: {error.message}: {error.hint}"]
        return self._caller.notes()

    def loops(self) -> Loops:
        """The loops of this workspace: units in iterations, confirmed and verified."""
        from holdfast.loops.keeping import Loops

        return Loops(self)  # type: ignore[arg-type]

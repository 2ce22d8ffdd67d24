"""The layers of the current initiative beside its record, kept in step with it.

They are level-triggered: what is written is the state of now, whatever was missed before. Files
are written without the workspace's lock, one writer at a time.
"""

from __future__ import annotations

import os

from holdfast import exchange
from holdfast.core import agreement
from holdfast.core.agreement import Source
from holdfast.core.initiatives import current_of, found, key_of
from holdfast.core.milestones import disagreements, in_a_note, taken
from holdfast.errors import Fault, HoldfastError, Refused
from holdfast.initiatives import pages, sources, status
from holdfast.initiatives.places import Places, bad_file
from holdfast.small import Noted, stream_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.caller import Caller
    from holdfast.core.agreement import Verdict
    from holdfast.core.shapes import Fields
    from holdfast.core.small_shapes import Initiative, Initiatives
    from holdfast.small import Small

LOCK = "initiatives.lock"
WAIT_S = 5.0
_ROUNDS = 4
_STREAM = stream_of("initiatives")


class Layers:
    """What follows the record of initiatives in one worktree."""

    def __init__(self, caller: Caller, small: Small) -> None:
        self._caller = caller
        self._engine = caller.engine
        self._small = small
        self._places: Places | None = None
        self._seen: bytes | None = None
        """``WORKFLOW-STATUS.yaml`` as it was when it was last compared."""

    def places(self) -> Places:
        if self._places is None:
            self._places = Places(self._engine)
        return self._places

    def repeated(self, event_id: str) -> Noted | None:
        """The answer to a request that was carried out before."""
        before = self._caller.reading(lambda: self._caller.recorded(event_id, _STREAM))
        seqs = [event["seq"] for event in before]
        return Noted(self._small.state(), seqs, self._caller.notes()) if before else None

    def _current(self) -> tuple[str, Initiative] | None:
        state: Initiatives = self._small.state()  # type: ignore[assignment]
        one = current_of(state)
        return None if one is None else (str(state["current"]), one)

    def check(self, command: str, args: Fields) -> None:
        """Refuses a change while the file that would have to tell of it is broken or outside."""
        state: Initiatives = self._small.state()  # type: ignore[assignment]
        key = state["current"]
        if command == "create_initiative":
            key = key_of(args["name"])
        elif command == "use_initiative":
            key = found(state, args["name"])
        elif command == "recover_initiative":
            key = args["initiative"]
        if key is not None:
            one = state["all"].get(key) or args.get("state")
            self.places().read_status(self.places().status(key, one))

    # Comparing

    def agree(self, *, is_strict: bool = False, is_deep: bool = False) -> list[int]:
        """Compares the sources and mends the stale ones; gives the events of that.

        ``is_strict``: a broken file is refused, not only noted. ``is_deep``: the graph is asked
        even where the files agree.
        """
        seqs: list[int] = []
        for _ in range(_ROUNDS):
            try:
                self._small.put_back()
                made = self._agree_once(is_deep=is_deep)
            except HoldfastError as error:
                if is_strict:
                    raise
                self._engine.note(f"{error.message}: {error.hint}")
                break
            seqs += made or []
            if not made:
                break
        return seqs

    def _agree_once(self, *, is_deep: bool) -> list[int] | None:
        here = self._current()
        if here is None:
            return None
        key, one = here
        place = self.places().status(key, one)
        raw = self.places().read(place)
        self._seen = raw
        told = self.places().read_status(place) if raw is not None else None
        asked = [sources.of_record(one)]
        if told is not None and told.initiative not in (None, one["name"]):
            return self._renamed(key, one, told, place)
        if told is not None:
            asked.append(told.source(status.NAME, place))
        is_apart = any(source.differs(asked[0]) for source in asked[1:])
        now = self._engine.now()
        graph = None
        if is_deep or is_apart:
            is_unclear = agreement.is_unclear(asked, now)
            graph = sources.of_graph(self._engine, one["name"], with_server=is_unclear)
        verdict = agreement.weigh(asked, graph, now)
        if verdict is None or not self._can_mend(verdict.stale):
            return None
        made = self._mend(key, one, verdict, told)
        self.spread()
        return made

    def check_written(self) -> None:
        """Says no where ``WORKFLOW-STATUS.yaml`` could not be brought to what the record says."""
        here = self._current()
        if here is None:
            return
        place = self.places().status(*here)
        told = self.places().read_status(place)
        own = sources.of_record(here[1])
        if told is None or told.source(status.NAME, place).differs(own):
            raise Fault(
                "not_written",
                f"initiative sync: {place} could not be written",
                "make its folder writable, then run holdfast initiative sync",
            )

    def compare_pages(self) -> None:
        """Notes where the milestone files say something else; they are taken when that is asked."""
        here = self._current()
        if here is None:
            return
        key, one = here
        known = [each["id"] for each in one["milestones"]]
        try:
            read = self.places().read_pages(key, one, known, is_strict=False)
        except HoldfastError as error:
            self._engine.note(f"{error.message}: {error.hint}")
            return
        apart = disagreements(one, pages.merged(read)[1])
        if apart:
            self._engine.note(in_a_note(apart))

    def _can_mend(self, stale: list[Source]) -> bool:
        """Whether a stale file can be written: else there would be an event at every look."""
        for source in stale:
            folder = os.path.dirname(self.places().path(source.place)) if source.place else ""
            if folder and not os.access(folder, os.W_OK):
                self._engine.note(f"{source.place} is stale, and its folder cannot be written")
                return False
        return True

    def _renamed(
        self, key: str, one: Initiative, told: status.Status, place: str
    ) -> list[int] | None:
        """The file speaks of another initiative: it is stale, whatever its time."""
        stale = told.source(status.NAME, place, told.initiative)
        if not self._can_mend([stale]):
            return None
        made = self._correct(key, one, sources.of_record(one), [stale], {})
        self.spread()
        return made

    def _mend(
        self, key: str, one: Initiative, verdict: Verdict, told: status.Status | None
    ) -> list[int]:
        right = verdict.authoritative
        args: Fields = {}
        if right.name != sources.RECORD:
            try:
                args["state"] = sources.taken(one, right, self._engine)
            except status.BadStatus as bad:
                if right.name == status.NAME and told is not None:
                    keys = bad.why.partition(" ")[0].split(".", 1)
                    raise bad_file(
                        right.place, status.BadStatus(told.line_of(*keys), bad.why)
                    ) from None
                return self._record_stays(key, one, verdict, bad.why)
        if verdict.warning:
            self._engine.note(verdict.warning)
        try:
            return self._correct(key, one, right, verdict.stale, args)
        except Refused as refused:
            if refused.code != "wrong_order":
                raise
            return self._record_stays(key, one, verdict, refused.message)

    def _record_stays(self, key: str, one: Initiative, verdict: Verdict, why: str) -> list[int]:
        """The newer source says what cannot be: it follows the record after all."""
        self._engine.note(f"{verdict.authoritative.name} is not taken: {why}")
        own = sources.of_record(one)
        stale = [source for source in verdict.asked if source.differs(own)]
        return self._correct(key, one, own, stale, {})

    def _correct(
        self, key: str, one: Initiative, right: Source, stale: list[Source], args: Fields,
        id: str | None = None,
    ) -> list[int]:  # fmt: skip
        said = agreement.corrected(stale, right)
        told = {
            "initiative": key,
            "authoritative": right.name,
            "stale": [source.name for source in stale],
            "lost": {source.name: source.content() for source in stale},
            "said": said,
            "seen": one["updated_at"],
        }
        noted = self._small.do("correct_initiative", {**told, **args}, id=id)
        for note in [*noted.notes, *([said] if noted.seqs else [])]:
            self._engine.note(note)
        return noted.seqs

    # Writing

    def spread(self) -> None:
        """Brings the files and the embedded graph to what the record says now."""
        self._write_current()
        self._tell_graph()

    def tick(self) -> None:
        """Brings the boxes of the pages there; nothing else."""
        self._one_at_a_time(self._tick)

    def _one_at_a_time(self, write: Callable[[str, Initiative], None]) -> None:
        home = self._engine.workspace.home
        try:
            lock = self._engine.disk.lock(os.path.join(home, LOCK), WAIT_S)
            try:
                here = self._current()
                if here is not None:
                    write(*here)
            finally:
                self._engine.disk.close(lock)
        except (OSError, HoldfastError) as error:
            why = getattr(error, "message", None) or getattr(error, "strerror", None) or error
            self._engine.note(f"not all files could be written ({why}): holdfast initiative sync")

    def _write_all(self, key: str, one: Initiative) -> None:
        self._write_status(key, one)
        self._tick(key, one)

    def _write_status(self, key: str, one: Initiative) -> None:
        place = self.places().status(key, one)
        values, progress = sources.values_of(one)
        values["updated"] = one["updated_at"]
        own = sources.of_record(one)
        lost: list[Source] = []

        def patched(raw: bytes | None) -> bytes | None:
            if raw is None or not raw.strip():
                return status.fresh(values, progress)
            try:
                return status.Status(raw).with_values(values, progress)
            except status.BadStatus as bad:
                raise bad_file(place, bad) from None

        def prepare(raw: bytes | None) -> bytes | None:
            after = patched(raw)
            if raw is not None and raw != self._seen and raw.strip():
                there = status.Status(raw).source(status.NAME, place)
                lost.extend([there] if there.differs(own) else [])
            return after

        self._clear(place, patched)
        self._settle(place, prepare)
        if lost:
            # Somebody saved it in this very moment: what it said is kept.
            self._correct(key, one, own, lost[-1:], {})

    def _tick(self, key: str, one: Initiative) -> None:
        known = [each["id"] for each in one["milestones"]]
        folder = self.places().folder(key, one)
        found = self.places().read_pages(key, one, known, is_strict=False)
        for place, page in found:
            ticking = self._ticking(place, one, known)
            self._clear(place, ticking)
            if page.ticked(one, is_ours=self._is_ours(one, place)) != page.text.encode(
                "utf-8", "surrogateescape"
            ):
                self._settle(place, ticking)
        readme = f"{folder}/README.md"
        if one.get("files") and not os.path.lexists(self.places().path(readme)):
            self._clear(readme, lambda raw: pages.fresh(one) if raw is None else raw)
            self._settle(readme, lambda raw: pages.fresh(one) if raw is None else raw)

    def _ticking(
        self, place: str, one: Initiative, known: list[str]
    ) -> Callable[[bytes | None], bytes | None]:
        def prepare(raw: bytes | None) -> bytes | None:
            if raw is None:
                return None
            page = self.places().page(place, raw, known)
            return page.ticked(one, is_ours=self._is_ours(one, place))

        return prepare

    @staticmethod
    def _is_ours(one: Initiative, place: str) -> bool:
        return bool(one.get("files")) and place.endswith("/README.md")

    def _settle(self, place: str, prepare: Callable[[bytes | None], bytes | None]) -> None:
        disk, path = self._engine.disk, self.places().path(place)
        disk.make_folder(os.path.dirname(path))
        exchange.settle(disk, path, prepare, self._engine.pause)

    def _clear(self, place: str, patched: Callable[[bytes | None], bytes | None]) -> None:
        """Sees to what a killed command left beside a file: the same with other values is ours."""
        disk, path = self._engine.disk, self.places().path(place)

        def is_known(found: bytes) -> bool:
            there = disk.read(path)
            try:
                return patched(found) == patched(there)
            except Refused:
                return False

        for kept in exchange.clear_spares(disk, path, is_known):
            name = os.path.basename(kept)
            self._engine.note(f"what a killed command left beside {place} is kept as {name}")

    def mend_graph(self) -> list[int]:
        """The embedded graph is made anew where somebody changed what it says of the initiative."""
        here = self._current()
        if here is None:
            return []
        key, one = here
        own, graph = sources.of_record(one), sources.of_graph(self._engine, one["name"])
        if graph is None or set(graph.progress) != set(own.progress):
            self._tell_graph(everything=True)
        if graph is None or not graph.differs(own):
            return []
        made = self._correct(key, one, own, [graph], {})
        self._write_current()
        self._tell_graph(everything=True)
        return made

    def _write_current(self) -> None:
        self._one_at_a_time(self._write_all)

    def _tell_graph(self, *, everything: bool = False) -> None:
        """The embedded graph is brought up to date; a server hears of it with the next sync."""
        from holdfast import settings

        try:
            if settings.load(self._engine.workspace.root).graph() != "embedded":
                return
            from holdfast.graph import layer

            told = layer.caught_up(self._engine, everything=everything)
            if told is not None:
                told.store.close()
        except (OSError, Fault) as error:
            from holdfast.graph.delivery import WARNING

            self._engine.note(f"{WARNING}: {getattr(error, 'message', error)}")

    # Taking the pages' word

    def take_files(self, id: str | None = None) -> list[int]:
        """The milestone files are right: the record follows them."""
        here = self._current()
        if here is None:
            return []
        key, one = here
        known = [each["id"] for each in one["milestones"]]
        read = self.places().read_pages(key, one, known)
        _, told = pages.merged(read)
        if not told:
            where = self.places().folder(key, one)
            why = f"initiative sync: {where} has no page with milestones"
            raise Refused("not_found", why, "write headings such as '## M1: title' with boxes")
        after = taken(one, told)
        if after == one:
            return []
        right = Source(sources.FILES, None, None, None, {})
        return self._correct(key, one, right, [sources.of_record(one)], {"state": after}, id)

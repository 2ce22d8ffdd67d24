"""Mutations of what makes the work of several machines one, tried on simulated worlds."""

from promises.mutating import Mutation, answer

_WORLDS = "tests/simulation/test_simulation.py::test_crowded_worlds"
_HEARD = "tests/hub/test_lost_answers.py::test_"
_MEANT = "tests/core/test_sharing.py::test_a_task_is_known_by_its_text_where_another_has_its_number"


def _without_check(original):
    def push(self, events):
        leases, fenced = self._leases, []
        try:
            for event in events:
                self._leases = {event["stream"]: ("", event.get("epoch", 0), 0.0)}
                fenced += original(self, [event])
        finally:
            self._leases = leases
        return fenced

    return push


def _held_twice(original):
    def claim(self, stream, holder, ttl_s, epoch=0):
        owner, current, _ = self._leases.get(stream, ("", 0, 0.0))
        if not epoch:
            self._leases[stream] = owner, current, 0.0
        return original(self, stream, holder, ttl_s, epoch)

    return claim


def _push_before_commit(original):
    def commit_once(self, changed, *, is_asked):
        from holdfast import hub
        from holdfast.errors import Fault

        replica = self.replica
        if replica is not None and any(loaded.events for loaded in changed):
            try:
                wire = hub.open_hub(self.store, replica.hub)
                wire.push(replica.events.of_replica(replica.id, 0, 10**6))
            except Fault:
                pass
        return original(self, changed, is_asked=is_asked)

    return commit_once


def _cursor_first(original):
    def exchange(session, hub, progress=None):
        from holdfast.hub import exchange

        settings = exchange.settings_of(session.store)
        pulled = hub.pull(settings["cursor"])
        exchange._keep_cursor(session, pulled.cursor)
        exchange.take_in(session, pulled.events)
        return original(session, hub, progress)

    return exchange


REPLICAS = [
    Mutation(
        16, "no epoch check", "support.memory_hub:MemoryHub.push", _without_check,
        _WORLDS, whole=True,
    ),
    Mutation(
        16, "fence only at the hub", "holdfast.hub.exchange:_fence", answer(), _WORLDS, whole=True,
    ),
    Mutation(
        16, "merge by arrival", "holdfast.core.sharing:Fold.can_continue", answer(True),
        _WORLDS, whole=True,
    ),
    Mutation(
        16, "push before commit", "holdfast.keeper.transaction:Transaction._commit_once",
        _push_before_commit, _WORLDS, whole=True,
    ),
    Mutation(
        16, "a claim for everybody", "support.memory_hub:MemoryHub.claim", _held_twice,
        _WORLDS, whole=True,
    ),
    Mutation(
        16, "no word of conflicts", "holdfast.core.sharing:_note_conflict", answer(),
        _WORLDS, whole=True,
    ),
    Mutation(
        16, "the cursor before its events", "holdfast.hub.exchange:exchange", _cursor_first,
        _WORLDS, whole=True,
    ),
    Mutation(
        16, "settle records between merges", "holdfast.hub.exchange:_settle_records", answer(),
        f"{_HEARD}a_machine_that_dies_after_it_took_in_an_edit_misses_no_event",
    ),
    Mutation(
        16, "numbers for tasks", "holdfast.core.sharing:_meant", answer({}), _MEANT,
    ),
]  # fmt: skip

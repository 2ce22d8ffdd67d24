"""What must be true once the network is whole again and every machine has synced.

The checks do not ask the product what it thinks of itself. They compare what each ledger holds:
the events, one fold of all of them from scratch, the states that commands work on, and the effect
of each acknowledged command.
"""

from holdfast.core import sharing
from holdfast.core.json_text import dumps
from holdfast.formats import aggregate_of
from holdfast.hub import Sharing, exchange
from simulation.network import Violation

MAX_ROUNDS = 12
_OF_MACHINE = ("replica", "machine")
_COURSE = ("history", "history_earlier", "updated_at")
"""Until others change a workflow, its history also has what concerns only this machine."""


_BEGINNINGS = ("start_workflow", sharing.OPEN)
_ASKED_ONCE = (sharing.TAKE, sharing.DROP, "expire_workflow")
"""Causes that may leave an earlier conflict as it was, in place of one of their own."""


def require(is_so, *what):
    if not is_so:
        raise Violation(" ".join(map(str, what)))


def heal(world):
    """Let everything arrive, and let all machines sync until nothing moves any more."""
    world.weather.deliver_late(most=10**6)
    world.weather.is_bad = False
    exchange.AT_ONCE = 500
    for machine in world.machines:
        machine.is_online = True
        machine.disk.die_after(None)
    for _ in range(MAX_ROUNDS):
        order = world.lots.sample(world.machines, len(world.machines))
        moved = 0
        for machine in order:
            done = machine.sync()
            moved += done.pulled + done.pushed
        if not moved:
            return
    raise Violation(f"the machines still exchange events after {MAX_ROUNDS} rounds")


def check_world(world):
    """Check everything; return the fold of each stream."""
    events = check_same_events(world)
    folds = {
        stream: sharing.fold(aggregate_of(stream), in_order) for stream, in_order in events.items()
    }
    for machine in world.machines:
        check_folds(machine, events, folds)
        check_states(machine, folds)
        check_conflicts(machine, folds)
    check_deeds(world, events, folds)
    check_fences(world, folds)
    machine = world.lots.choice(world.machines)
    lines = machine.keeper.verify(everything=True).lines
    damage = [line["message"] for line in lines if line["level"] == "error"]
    require(not damage, machine.name, "does not verify:", damage)
    return folds


def check_same_events(world):
    """Every machine has the same events, each one once; return them by stream, in order."""
    held = [
        {
            (event["replica"], event["n"]): dumps(event)
            for replica in machine.events.known()
            for event in machine.events.of_replica(replica, 0, 10**9)
        }
        for machine in world.machines
    ]
    for machine, other in zip(world.machines, held, strict=True):
        for key in sorted({*held[0], *other}):
            one, two = held[0].get(key), other.get(key)
            require(one == two, machine.name, "has another event", key, one, two)
    streams = {}
    first = world.machines[0].events
    for replica in sorted(first.known()):
        own = first.of_replica(replica, 0, 10**9)
        numbers = [event["n"] for event in own]
        require(numbers == list(range(1, len(own) + 1)), replica, "has a gap:", numbers)
        for event in own:
            streams.setdefault(event["stream"], []).append(event)
    for stream in streams.values():
        stream.sort(key=sharing.position_of)
    return streams


def check_folds(machine, events, folds):
    """The fold that a machine keeps, brought up to date, is the fold of all from scratch."""
    for stream, in_order in events.items():
        kept = machine.events.fold(stream)
        later = [event for event in in_order if sharing.position_of(event) > kept.position]
        require(kept.can_continue(later), machine.name, "has an old fold of", stream)
        fold = sharing.fold(aggregate_of(stream), later, kept)
        is_same = dumps(fold.fields()) == dumps(folds[stream].fields())
        require(is_same, machine.name, "has another fold of", stream)


def check_states(machine, folds):
    """The state that commands work on is the shared one, besides what is the machine's own."""
    for stream, fold in folds.items():
        stored = machine.keeper.store.ledger.stream(stream)
        local = None if stored is None else _portable(stored.state)
        shared = None if fold.state is None else _portable(fold.state)
        if local != shared:
            keys = [key for key in shared or {} if (local or {}).get(key) != shared[key]]
            require(False, machine.name, "has another state of", stream, keys)


def _portable(state):
    """Return a state without what each replica has for itself."""
    shared = sharing.shared_state(state)
    after = {key: value for key, value in shared.items() if key not in _COURSE}
    if "gates" in after:
        after["gates"] = {name: _unmarked(gate) for name, gate in after["gates"].items()}
        after["tests"] = _unmarked(after["tests"])
    return after


def _unmarked(result):
    return {key: value for key, value in result.items() if key not in _OF_MACHINE}


def check_conflicts(machine, folds):
    """Every conflict is shown, on every machine and with its workflow."""
    expected = [one for _, fold in sorted(folds.items()) for one in fold.shown()]
    shown = [
        {name: value for name, value in one.items() if name != "can_take"}
        for one in Sharing(machine.keeper).conflicts()
    ]
    key = lambda one: (one["workflow"], one["id"])  # noqa: E731
    require(
        sorted(shown, key=key) == sorted(expected, key=key),
        machine.name, "shows other conflicts:", len(shown), "of", len(expected),
    )  # fmt: skip
    for stream, fold in folds.items():
        if fold.state is not None and "recipe" in fold.state:
            state = machine.keeper.store.ledger.stream(stream).state
            require(
                state.get("conflicts", []) == fold.shown(),
                machine.name, "does not show the conflicts of", stream,
            )  # fmt: skip


def check_deeds(world, events, folds):
    """What was acknowledged is there once, and has its effect once; or it is a conflict."""
    found = {}
    begun = {}
    for stream, in_order in events.items():
        for place, event in enumerate(in_order):
            found.setdefault(event["cause"]["id"], []).append((stream, place))
            is_refused = sharing.find_conflict(folds[stream].conflicts, event["cause"]["id"])
            if event["cause"]["type"] in _BEGINNINGS and not is_refused:
                begun[stream] = place
    for deed in world.deeds:
        where = found.get(deed.id, [])
        require(len(where) < 2, deed.kind, deed.id, "is there twice")
        if not where:
            require(deed.is_excused or _is_local(deed), deed.kind, deed.id, "is lost")
            continue
        stream, place = where[0]
        if place < begun.get(stream, 0):
            continue  # It was done on a workflow that ended, and was opened anew.
        fold = folds[stream]
        is_open = sharing.find_conflict(fold.conflicts, deed.id) is not None
        is_dropped = deed.id in fold.settled and not sharing.is_taken(fold, deed.id)
        times = _times(deed, fold.state)
        if is_open or is_dropped:
            require(not times or deed.kind == "done", deed.kind, deed.id, "took place all the same")
        elif times is not None:
            require(times == 1, deed.kind, deed.mark, "is in the state", times, "times")


def _is_local(deed):
    """Return whether a command may concern only its machine."""
    return deed.kind in {"resume", "take", "give"}


def _times(deed, state):
    """Return how often the effect of a command is in a state; ``None`` if that says nothing."""
    if state is None:
        return 0
    if deed.kind == "start":
        return int(state["title"] == deed.mark)
    if deed.kind == "reminder":
        return state["reminders"].count(deed.mark)
    if deed.kind == "task":
        return sum(task["description"] == deed.mark for task in state["tasks"])
    if deed.kind == "context":
        return int(deed.mark in state["context"])
    if deed.kind == "gate":
        return int(deed.mark in state["gates"])
    if deed.kind == "done":
        tasks = [task for task in state["tasks"] if task["description"] == deed.mark]
        return sum(task["status"] == "completed" for task in tasks)
    if deed.kind == "learning":
        return sum(one["text"] == deed.mark for one in state["learnings"])
    return None


def check_fences(world, folds):
    """What reached the hub after its lease was lost is a conflict, unless somebody took it."""
    late = world.hub.referee.late.items() if world.hub.is_fencing else ()
    for own_id, (stream, kind) in late:
        if kind in _ASKED_ONCE:
            continue
        fold = folds[stream]
        conflict = sharing.find_conflict(fold.conflicts, own_id)
        require(
            conflict is not None or own_id in fold.settled,
            "the event", own_id, "of", stream, "counts, although its lease was lost",
        )  # fmt: skip

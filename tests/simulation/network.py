"""The network of the simulation: a hub, the wires to it, and a referee who watches the leases.

Every answer and every request can be lost. What a machine pulls comes late, again, and mixed with
what others did; what it pushed can arrive once more days later. The order of one replica's events
is kept, as the contract of a hub says (``holdfast/hub/contract.py``).
"""

import json

from holdfast.hub.contract import Forked, Pulled, unreachable
from support.memory_hub import MemoryHub


class Violation(AssertionError):
    """A promise that the simulation saw broken."""


class FencingHub(MemoryHub):
    """A hub like PostgreSQL: durable, with leases that it checks."""

    def __init__(self, clock_s):
        super().__init__(clock_s)
        self.referee = Referee(clock_s)

    def push(self, events):
        fresh = [event for event in events if event["n"] > self._known.get(event["replica"], 0)]
        fenced = super().push(events)
        self.referee.stored(fresh)
        return fenced

    def claim(self, stream, holder, ttl_s, epoch=0):
        got = super().claim(stream, holder, ttl_s, epoch)
        self.referee.granted(stream, holder, got, ttl_s)
        return got

    def release(self, stream, epoch):
        super().release(stream, epoch)
        self.referee.released(stream, epoch)

    def known_before(self, cursor):
        """Return the highest ``n`` of each replica among the events before a cursor."""
        known = {}
        for text in self._events[: int(cursor)]:
            event = json.loads(text)
            known[event["replica"]] = event["n"]
        return known

    def head(self):
        return len(self._events)


class LosingHub(FencingHub):
    """A hub like a git remote: it checks no lease, and a ref can be lost with all its events."""

    is_fencing = False

    def lose(self, lots):
        """Lose the events of one replica."""
        if self._known:
            lost = lots.choice(sorted(self._known))
            del self._known[lost]
            self._ids = {key: own for key, own in self._ids.items() if key[0] != lost}
            kept = [text for text in self._events if json.loads(text)["replica"] != lost]
            # The others keep their places, so that cursors stay true.
            self._events = [text if text in kept else _GONE for text in self._events]

    def pull(self, since):
        pulled = super().pull(since)
        pulled.events = [event for event in pulled.events if event["replica"]]
        return pulled

    def known_before(self, cursor):
        known = super().known_before(cursor)
        return {name: n for name, n in known.items() if name}


_GONE = json.dumps({"replica": "", "n": 0})


class Referee:
    """Knows who holds what, from the hub's answers alone, also from those that were lost."""

    def __init__(self, clock_s):
        self._clock_s = clock_s
        self._grants = {}
        self.late = {}
        """By its id, stream and type of each cause whose lease was lost when it reached the hub."""
        self.claims = 0

    def granted(self, stream, holder, epoch, ttl_s):
        now = self._clock_s()
        owner, current, until = self._grants.get(stream, ("", 0, 0.0))
        is_renewed = epoch == current and holder == owner
        if not is_renewed and epoch <= current:
            raise Violation(f"{stream}: epoch {epoch} after {current}")
        if not is_renewed and holder != owner and now < until:
            raise Violation(f"{stream} is held by {owner} and by {holder}")
        self._grants[stream] = holder, epoch, now + ttl_s
        self.claims += 1

    def released(self, stream, epoch):
        owner, current, _ = self._grants.get(stream, ("", 0, 0.0))
        if epoch == current:
            self._grants[stream] = owner, current, 0.0

    def stored(self, events):
        for event in events:
            if "epoch" in event and event["epoch"] != self._grants[event["stream"]][1]:
                self.late[event["cause"]["id"]] = event["stream"], event["cause"]["type"]


class Wire:
    """A hub as one machine reaches it for the length of one exchange."""

    kind = where = address = "memory"

    def __init__(self, hub, weather, machine):
        self._hub = hub
        self._weather = weather
        self._machine = machine
        self._horizon = weather.horizon(hub.head())
        self.is_fencing = hub.is_fencing

    def reach(self):
        self._travel("question")

    def pull(self, since):
        self._travel("pull")
        start = self._weather.earlier(int(since or 0))
        pulled = self._hub.pull(str(start))
        end = max(self._horizon, int(since or 0))
        if end < int(pulled.cursor):
            ahead = self._hub.pull(str(end)).events
            events = pulled.events[: len(pulled.events) - len(ahead)]
            pulled = Pulled(events, str(end), self._hub.known_before(end))
        self._travel("pull answer")
        pulled.events = self._weather.mixed(pulled.events)
        return pulled

    def push(self, events):
        self._travel("push")
        self._weather.remember(self._hub, events)
        fenced = self._hub.push(json.loads(json.dumps(events)))
        self._horizon = self._hub.head()
        self._travel("push answer")
        return fenced

    def claim(self, stream, holder, ttl_s, epoch=0):
        self._travel("claim")
        epoch = self._hub.claim(stream, holder, ttl_s, epoch)
        self._travel("claim answer")
        return epoch

    def release(self, stream, epoch):
        self._travel("release")
        self._hub.release(stream, epoch)
        self._travel("release answer")

    def leases(self):
        self._travel("leases")
        return self._hub.leases()

    def is_public(self):
        return False

    def close(self):
        """Nothing is open."""

    def _travel(self, what):
        """Die on the way, or lose what is on its way."""
        self._machine.disk.step(what)
        if not self._machine.is_online or self._weather.is_losing():
            raise unreachable("memory", f"the {what} was lost")


class Weather:
    """How bad the network is, drawn anew for everything that travels."""

    def __init__(self, lots):
        self._lots = lots
        self.is_bad = False
        self._late = []

    def is_losing(self):
        return self.is_bad and self._lots.random() < 0.04

    def horizon(self, head):
        """Return up to which event a machine can see now; the others are still on their way."""
        is_lagging = self.is_bad and self._lots.random() < 0.2
        return max(0, head - self._lots.randrange(1, 30)) if is_lagging else head

    def earlier(self, cursor):
        """Return a cursor from which some events come once more."""
        is_again = self.is_bad and self._lots.random() < 0.2
        return max(0, cursor - self._lots.randrange(1, 20)) if is_again else cursor

    def mixed(self, events):
        """Return events in another order, each replica's in their own."""
        if not self.is_bad:
            return events
        queues = {}
        for event in events:
            queues.setdefault(event["replica"], []).append(event)
        places = [event["replica"] for event in events]
        self._lots.shuffle(places)
        ends = {name: iter(queue) for name, queue in queues.items()}
        return [next(ends[name]) for name in places]

    def remember(self, hub, events):
        """Keep a request that arrives a second time, some day."""
        if self.is_bad and hub.is_fencing and self._lots.random() < 0.1:
            self._late.append((hub, json.dumps(events)))

    def deliver_late(self, most=1):
        """Let requests arrive that were sent long ago."""
        for _ in range(min(most, len(self._late))):
            hub, text = self._late.pop(self._lots.randrange(len(self._late)))
            try:
                hub.push(json.loads(text))
            except Forked:
                continue

"""A git remote as a hub: no server of our own, only a place that everybody can push to and fetch.

Each replica has one ref, ``refs/holdfast/v1/<replica>``, and only it pushes there: nobody is ever
rejected because of others' work. Each commit is a batch of events (``git_commits``). ``pull`` lists
the refs, fetches those that have moved into ``hub.git`` (``git_mirror``), and reads only the new
commits; its cursor is the last commit and ``n`` of each replica.

The remote may be any that git knows, a bare folder, or a *bundle*: if ``where`` ends in
``.bundle``, it is a file, perhaps on a USB stick, that is read if it is there and written anew with
the refs of all replicas (``holdfast hub add git /media/stick/work.bundle``).

What is lost on the remote is pushed again from the ledger (``exchange``). What is damaged there, or
was put there by somebody else, is left out, and said: only what can be read and follows without a
gap counts. A damaged ref of our own is replaced.

Claims are advisory. They are in the file ``leases`` of the tree, and run by the clock of the
machine that wrote them. Two machines that claim at the same time may both get the lease: events
are not fenced, and what they do apart is merged, or becomes a conflict.
"""

from __future__ import annotations

import time

from holdfast.core import json_text
from holdfast.core.json_text import BadJson, dumps
from holdfast.errors import Fault, Refused
from holdfast.hub import git_commits
from holdfast.hub.contract import GIT, Forked, Held, Lease, Pulled, unreachable
from holdfast.hub.git_commits import (
    LEASES,
    Batch,
    Broken,
    Objects,
    Ref,
    RefReader,
    batches_of,
    cursor_of,
    refs_of,
)  # fmt: skip
from holdfast.hub.git_mirror import REFS, GitFailed, Mirror, find_place
from holdfast.system.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.types import Fields, SharedEvent
    from holdfast.workspace.location import Workspace

_TRIES = 5
_MAX_LEASES = 200
_MAX_LEASES_BYTES = 256 * 1024
_MAX_LEASE_S = 24 * 3600
"""A lease that claims to run longer was written by a wrong clock."""
_KEPT_LEASE_S = 7 * 24 * 3600


class GitRemote:
    """The hub of a repository on a git remote."""

    kind = GIT
    is_fencing = False

    def __init__(
        self, workspace: Workspace, where: str, replica: str = "", *, disk: Disk | None = None,
        clock_s: Callable[[], float] = time.time, list_limit_s: float = 30.0,
        limit_s: float = 300.0,
    ) -> None:  # fmt: skip
        place = find_place(workspace.root, where)
        self.where = place.where
        self.address = place.address
        self._mirror = Mirror(workspace, place, disk or Disk(), list_limit_s, limit_s)
        self._replica = replica
        self._clock_s = clock_s
        self._refs: dict[str, Ref] | None = None
        """What is known of the remote; ``None`` if it has to be asked again."""
        self._reading: RefReader | None = None
        """What ``pull`` goes on with, if the last one did not return everything."""
        self._damaged: set[str] = set()
        self._bundle_state: tuple[int, ...] = ()

    # Events

    def pull(self, since: str) -> Pulled:
        try:
            pulled = self._pull(since)
            is_ours = bool(pulled.flaws) and not self._is_sound()
        except Broken:
            is_ours = True
        if is_ours:
            # What seems to be missing on the remote is missing here.
            self._remake()
            pulled = self._pull(since)
        if pulled.is_all:
            self.close()
        return pulled

    def _pull(self, since: str) -> Pulled:
        if self._reading is None or self._reading.cursor != since:
            self.close()
            self._reading = self._begin(since)
        if self._reading is None:
            return Pulled([], cursor_of(self._refs or {}), self._known(), is_all=True)
        pulled = self._reading.read()
        self._damaged |= self._reading.unusable
        if pulled.is_all:
            pulled.known = self._known()
        return pulled

    def _is_sound(self) -> bool:
        with self._mirror.locked():
            return self._mirror.is_sound()

    def _remake(self) -> None:
        """Make ``hub.git`` anew, empty; what is needed is fetched again."""
        self.close()
        with self._mirror.locked():
            self._mirror.remake()

    def _begin(self, since: str) -> RefReader | None:
        """List the refs and fetch what is new; return ``None`` if nothing is."""
        self._bundle_state = self._mirror.bundle_state() if self._mirror.place.is_bundle else ()
        tips = self._mirror.tips()
        before = refs_of(since)
        refs = {replica: before.get(replica, Ref(replica, "")) for replica in sorted(tips)}
        changed = [ref for ref in refs.values() if ref.commit != tips[ref.replica]]
        for ref in refs.values():
            ref.tip = tips[ref.replica]
        self._refs, self._damaged = refs, set()
        if not changed:
            return None
        with self._mirror.locked():
            self._damaged = set(self._mirror.fetch({ref.replica: ref.tip for ref in changed}))
        sound = [ref for ref in changed if ref.replica not in self._damaged]
        flaws = [
            f"{self.where}: {REFS}/{replica} cannot be fetched and was left out"
            for replica in sorted(self._damaged)
        ]
        return RefReader(self._mirror, self.where, refs, sound, flaws)

    def _known(self) -> dict[str, int]:
        """Return the highest ``n`` that the remote has of each replica."""
        refs = self._refs or {}
        lost = self._damaged & {self._replica}
        return {name: ref.n for name, ref in refs.items() if ref.n and name not in lost}

    def push(self, events: Sequence[SharedEvent]) -> list[tuple[str, int]]:
        if not events:
            return []
        for _ in range(_TRIES):
            known = self._seen()
            fresh: dict[str, list[SharedEvent]] = {}
            old: dict[str, list[SharedEvent]] = {}
            for event in events:
                is_fresh = event["n"] > known.get(event["replica"], 0)
                (fresh if is_fresh else old).setdefault(event["replica"], []).append(event)
            for replica, again in old.items():
                self._check_same(replica, again)
            for replica in self._damaged - {self._replica}:
                fresh.pop(replica, None)  # Only its own replica replaces a ref.
            if not fresh or self._store(fresh):
                return []
        raise self._raced()

    def _raced(self) -> Fault:
        return unreachable(self.where, f"its refs were changed during each of {_TRIES} tries")

    def _seen(self) -> dict[str, int]:
        """Return what the remote has of each replica; read what is not read yet."""
        if self._refs is None:
            cursor = ""
            while not (pulled := self.pull(cursor)).is_all:
                cursor = pulled.cursor
        return self._known()

    def _check_same(self, replica: str, events: list[SharedEvent]) -> None:
        """Raise ``Forked`` if the remote has other events under the numbers of these."""
        assert self._refs is not None
        if replica in self._damaged:
            return
        ref = self._refs[replica]
        whole = RefReader(self._mirror, self.where, {}, [Ref(replica, ref.tip)], [])
        ids = {event["n"]: event["cause"]["id"] for event in events}
        try:
            for event in whole.all():
                if ids.get(event["n"], event["cause"]["id"]) != event["cause"]["id"]:
                    raise Forked(replica, event["n"])
        except Broken:
            return  # They are pushed after those that are there, and found out by whoever reads.
        finally:
            whole.close()

    def _store(self, fresh: dict[str, list[SharedEvent]]) -> bool:
        """Push events, which follow those on the remote; return False if they no longer do."""
        batches = [
            batch
            for replica, events in fresh.items()
            for batch in batches_of(replica, self._parent_of(replica), events)
        ]
        return self._send(batches)

    def _parent_of(self, replica: str) -> str:
        ref = (self._refs or {}).get(replica)
        return "" if ref is None or replica in self._damaged else ref.tip

    def _send(self, batches: list[Batch]) -> bool:
        """Push batches; return False if another process has changed one of their refs."""
        assert self._refs is not None
        with self._mirror.locked():
            self._mirror.prepare()
            tips = self._written(batches)
            if self._mirror.place.is_bundle:
                whole = {**{replica: ref.tip for replica, ref in self._refs.items()}, **tips}
                self._mirror.fetch({r: tip for r, tip in whole.items() if r not in tips})
                is_sent = self._mirror.write_bundle(whole, self._bundle_state)
                self._bundle_state = self._mirror.bundle_state()
                behind = set() if is_sent else set(tips)
            else:
                forced = self._replica if self._replica in self._damaged else ""
                replaced = self._refs[forced].tip if forced else ""
                behind = self._mirror.push(tips, forced, replaced)
        self._reading = None
        if behind:
            self._refs = None
            return False
        for batch in batches:
            tip = tips[batch.replica]
            self._refs[batch.replica] = Ref(batch.replica, tip, tip, batch.n)
            self._damaged.discard(batch.replica)
        return True

    def _written(self, batches: list[Batch]) -> dict[str, str]:
        """Write batches as commits of ``hub.git``; return the last commit of each replica."""
        assert self._refs is not None
        try:
            return git_commits.write(self._mirror, batches)
        except GitFailed:
            # The commit before them is missing, or something is damaged: both can be fetched.
            self._mirror.remake()
            names = {batch.replica for batch in batches if batch.parent}
            self._mirror.fetch({replica: self._refs[replica].tip for replica in names})
        try:
            return git_commits.write(self._mirror, batches)
        except GitFailed as failed:
            hint = "see to that, then: holdfast hub sync"
            why = f"{self._mirror.path} cannot be written ({failed.why})"
            raise Fault("storage", why, hint) from None

    def reach(self) -> None:
        self._mirror.tips()

    # Claims

    def claim(self, stream: str, holder: str, ttl_s: float, epoch: int = 0) -> int:
        if not self._replica:
            why = "hub: a claim needs a replica, and nothing is shared here yet"
            raise Refused("not_ready", why, "holdfast hub sync")
        for _ in range(_TRIES):
            leases = self._fetched_leases()
            running = _current(leases, stream)
            left = 0.0 if running is None else self._left_s(running)
            is_own = running is not None and running["holder"] == holder
            is_other = running is not None and not (is_own and epoch in (0, running["epoch"]))
            if running is not None and is_other and (epoch or left > 0):
                raise Held(stream, running["holder"], left)
            until = self._clock_s() + min(ttl_s, _MAX_LEASE_S)
            number = epoch or 1 + max((row["epoch"] for row in _rows(leases, stream)), default=0)
            row = {"stream": stream, "holder": holder, "epoch": number, "until": until}
            if self._keep_leases(leases, row):
                return number
        raise self._raced()

    def release(self, stream: str, epoch: int) -> None:
        for _ in range(_TRIES):
            leases = self._fetched_leases()
            running = _current(leases, stream)
            if running is None or running["epoch"] != epoch:
                return
            if running not in leases.get(self._replica, ()):
                return
            if self._keep_leases(leases, {**running, "until": self._clock_s()}):
                return
        raise self._raced()

    def leases(self) -> list[Lease]:
        """Return the leases that run as far as they have been fetched: the remote is not asked."""
        try:
            leases = self._read_leases(self._mirror.tips_here())
        except Broken:
            return []
        streams = dict.fromkeys(row["stream"] for rows in leases.values() for row in rows)
        running = [row for stream in streams if (row := _current(leases, stream)) is not None]
        return [
            Lease(row["stream"], row["holder"], row["epoch"], self._left_s(row))
            for row in running
            if self._left_s(row) > 0
        ]

    def _left_s(self, row: Fields) -> float:
        left: float = row["until"] - self._clock_s()
        return left if left <= _MAX_LEASE_S else 0.0

    def _fetched_leases(self) -> dict[str, list[Fields]]:
        """Return the leases on the remote."""
        try:
            return self._read_leases(self._fetched_tips())
        except Broken:
            self._remake()
        return self._read_leases(self._fetched_tips())

    def _fetched_tips(self) -> dict[str, str]:
        """List and fetch all refs; return those that could be fetched."""
        mirror = self._mirror
        self.close()
        self._bundle_state = mirror.bundle_state() if mirror.place.is_bundle else ()
        tips = mirror.tips()
        with mirror.locked():
            self._damaged = set(mirror.fetch(tips))
        self._refs = {replica: Ref(replica, tip) for replica, tip in tips.items()}
        return {replica: tip for replica, tip in tips.items() if replica not in self._damaged}

    def _read_leases(self, tips: dict[str, str]) -> dict[str, list[Fields]]:
        """Return the leases that each replica has written."""
        if not tips:
            return {}
        leases: dict[str, list[Fields]] = {}
        with Objects(self._mirror) as objects:
            for replica, tip in tips.items():
                raw = objects.read(f"{tip}:{LEASES}", _MAX_LEASES_BYTES)
                leases[replica] = _parse_leases(raw or b"[]")
        return leases

    def _keep_leases(self, leases: dict[str, list[Fields]], row: Fields) -> bool:
        """Store a lease in our ref; return False if another process has changed the ref."""
        own = [old for old in leases.get(self._replica, ()) if old["stream"] != row["stream"]]
        own = [old for old in own if old["until"] > self._clock_s() - _KEPT_LEASE_S]
        rows = [*own, row][-_MAX_LEASES:]
        parent = self._parent_of(self._replica)
        n = self._claimed_n(parent)
        data = dumps(rows).encode()
        batch = Batch(self._replica, parent, LEASES, n, data, int(self._clock_s()))
        is_sent = self._send([batch])
        self._refs = None
        return is_sent

    def _claimed_n(self, commit: str) -> int:
        """Return the highest ``n`` according to a commit's message."""
        if not commit:
            return 0
        with Objects(self._mirror) as objects:
            raw = objects.read(commit, git_commits.MAX_COMMIT_BYTES, b"commit") or b""
        found = git_commits.MESSAGE.fullmatch(raw.partition(b"\n\n")[2])
        return int(found[3]) if found else 0

    # The rest

    def is_public(self) -> bool | None:
        return self._mirror.is_public()

    def close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None


# Leases


def _parse_leases(raw: bytes) -> list[Fields]:
    """Return the leases of a file, without what is none."""
    try:
        rows = json_text.loads(raw, strict=True)
    except BadJson:
        return []
    rows = rows if isinstance(rows, list) else []
    return [row for row in rows[:_MAX_LEASES] if isinstance(row, dict) and _is_lease(row)]


def _is_lease(row: Fields) -> bool:
    texts, epoch, until = (row.get("stream"), row.get("holder")), row.get("epoch"), row.get("until")
    are_texts = all(isinstance(text, str) and 0 < len(text) < 500 for text in texts)
    return are_texts and type(epoch) is int and epoch > 0 and isinstance(until, int | float)


def _rows(leases: dict[str, list[Fields]], stream: str) -> Iterable[Fields]:
    return (row for rows in leases.values() for row in rows if row["stream"] == stream)


def _current(leases: dict[str, list[Fields]], stream: str) -> Fields | None:
    """Return the lease with the highest epoch of a stream; of equal ones, the first holder's."""
    rows = sorted(_rows(leases, stream), key=lambda row: (-row["epoch"], row["holder"]))
    return rows[0] if rows else None

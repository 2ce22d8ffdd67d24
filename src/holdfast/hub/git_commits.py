"""The events of replicas as commits of ``hub.git``: how batches are written, and read again.

Each commit is one batch: its tree has the file ``events``, one event as JSON per line, or a new
version of the file ``leases``. The message of a commit is ``holdfast``, the version of this form,
what the batch is, and the highest ``n`` of its replica. A commit is a function of its events and
its parent, so a batch that is pushed again after a kill is the same commit.

Everybody who may push can write anything there. What is read has a size that is bounded; what is
no event of its replica, or does not follow the ones before, is left out, and said.
"""

from __future__ import annotations

import re
from heapq import merge
from itertools import groupby
from operator import itemgetter

from holdfast.core import sharing
from holdfast.core.json_text import BadJson
from holdfast.core.time import epoch_ms
from holdfast.errors import Fault
from holdfast.hub.contract import Pulled
from holdfast.hub.events import MAX_EVENT_BYTES, line_of, parse
from holdfast.hub.git_mirror import REFS, GitFailed, end

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from holdfast.core.types import SharedEvent
    from holdfast.hub.git_mirror import Mirror

EVENTS, LEASES = "events", "leases"
"""The files in the tree of a commit, and what its message calls it."""
MESSAGE = re.compile(rb"holdfast ([0-9]{1,9}) (events|leases) ([0-9]{1,15})\s*")
_FORM = 1
PULL_EVENTS = 10_000
"""The number of events that one ``pull`` returns at most."""
_PULL_BYTES = 32 * 1024 * 1024
_BATCH_EVENTS = 1_000
_BATCH_BYTES = 1024 * 1024
_MAX_BATCH_LINES = 5_000
MAX_COMMIT_BYTES = 64 * 1024
_MAX_COMMITS = 500_000


class Broken(Fault):
    """``hub.git`` cannot be read, and has to be made anew."""

    def __init__(self) -> None:
        super().__init__("storage", "hub.git cannot be read: git ended", "holdfast hub sync")


class Ref:
    """One replica's ref on the remote, and how far it has been read."""

    __slots__ = ("claimed", "commit", "n", "replica", "tip")

    def __init__(self, replica: str, tip: str, commit: str = "", n: int = 0) -> None:
        self.replica = replica
        self.tip = tip
        self.commit = commit
        """The last commit that was read to its end; empty if none was."""
        self.n = n
        self.claimed = n
        """The highest ``n`` according to the message of the last commit."""


# RefReader


class Objects:
    """A git that answers with the contents of objects."""

    def __init__(self, mirror: Mirror) -> None:
        try:
            self._process: subprocess.Popen[bytes] = mirror.start(("cat-file", "--batch"))
        except GitFailed as failed:
            raise Fault("storage", f"hub: {failed.why}", "install git") from None

    def __enter__(self) -> Objects:  # noqa: PYI034 - Self would import typing
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        end(self._process)

    def read(self, name: str, most: int, kind: bytes = b"blob") -> bytes | None:
        """Return an object; ``None`` if it is missing, larger than ``most``, or of another kind.

        Raise ``Broken`` if git cannot go on.
        """
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        try:
            requests.write(f"{name}\n".encode())
            requests.flush()
        except BrokenPipeError:
            raise Broken from None
        head = answers.readline().split()
        if not head:
            raise Broken
        if len(head) != 3 or not head[2].isdigit():
            return None
        remaining = int(head[2]) + 1
        if remaining > most or head[1] != kind:
            while remaining > 0 and (chunk := answers.read(min(remaining, 1 << 20))):
                remaining -= len(chunk)
            return None
        data = answers.read(remaining)
        if len(data) != remaining:
            raise Broken
        return data[:-1]


class RefReader:
    """The new events of several refs, in the order in which they are folded."""

    def __init__(
        self, mirror: Mirror, where: str, refs: dict[str, Ref], changed: list[Ref],
        flaws: list[str],
    ) -> None:  # fmt: skip
        self._where = where
        self._refs = refs
        self._flaws = flaws
        self._flawed: set[str] = set()
        self.unusable: set[str] = set()
        """The replicas whose refs are no commits: nothing can follow them."""
        self._objects = Objects(mirror)
        self._parts = merge(*map(self._events_of, changed), key=itemgetter(0))
        self.cursor = ""

    def close(self) -> None:
        self._objects.close()

    def read(self) -> Pulled:
        """Return the next events; ``known`` is what the refs are said to have."""
        events, size, is_all = [], 0, True
        for _, event, length, ref, commit in self._parts:
            events.append(event)
            ref.n, ref.commit = event["n"], commit
            size += length
            if len(events) >= PULL_EVENTS or size >= _PULL_BYTES:
                is_all = False
                break
        self.cursor = cursor_of(self._refs)
        highest = {name: max(ref.n, ref.claimed) for name, ref in self._refs.items()}
        flaws, self._flaws = self._flaws, []
        return Pulled(events, self.cursor, highest, is_all=is_all, flaws=flaws)

    def all(self) -> Iterator[SharedEvent]:
        """Yield all events."""
        return (event for _, event, *_ in self._parts)

    def _events_of(self, ref: Ref) -> Iterator[tuple[list[object], SharedEvent, int, Ref, str]]:
        """Yield position, event and size of a ref's new events, and the last commit before each."""
        commits, is_continued = self._commits_of(ref)
        if not is_continued:
            ref.commit, ref.n = "", 0
        commit, n = ref.commit, ref.n
        for name in commits:
            for line in self._lines_of(ref, name):
                try:
                    event = parse(line)
                except BadJson as bad:
                    self._leave_out(ref, f"an event ({bad.why})")
                    continue
                if event["replica"] != ref.replica or event["n"] > n + 1:
                    self._leave_out(ref, f"what follows event {n}")
                elif event["n"] == n + 1:
                    n += 1
                    yield sharing.position_of(event), event, len(line), ref, commit
            commit = name
        if ref.replica not in self.unusable:
            ref.commit, ref.n = ref.tip, n

    def _leave_out(self, ref: Ref, what: str) -> None:
        """Note the first flaw of a ref."""
        if ref.replica not in self._flawed:
            self._flawed.add(ref.replica)
            self._flaws.append(f"{self._where}: {what} in {REFS}/{ref.replica} was left out")

    def _commits_of(self, ref: Ref) -> tuple[list[str], bool]:
        """Return the commits with new events, the oldest first, and whether the ref was continued.

        A ref that was not continued has been rewritten, and is read from its beginning.
        """
        commits: list[str] = []
        name = ref.tip
        for _ in range(_MAX_COMMITS):
            if not name or name == ref.commit:
                break
            raw = self._objects.read(name, MAX_COMMIT_BYTES, b"commit")
            if raw is None and name == ref.tip:
                self.unusable.add(ref.replica)
            head, _, message = (raw or b"").partition(b"\n\n")
            found = MESSAGE.fullmatch(message)
            if found is None or int(found[1]) != _FORM:
                what = f"the commit {name[:12]} (a newer Holdfast wrote it, or another program)"
                self._leave_out(ref, what)
            else:
                ref.claimed = max(ref.claimed, int(found[3]))
                if found[2] == EVENTS.encode():
                    commits.append(name)
            parents = [row[7:] for row in head.split(b"\n") if row.startswith(b"parent ")]
            name = parents[0].decode(errors="replace") if parents else ""
        return commits[::-1], name == ref.commit

    def _lines_of(self, ref: Ref, commit: str) -> list[bytes]:
        raw = self._objects.read(f"{commit}:{EVENTS}", MAX_EVENT_BYTES)
        if raw is None or raw.count(b"\n") > _MAX_BATCH_LINES:
            what = f"the commit {commit[:12]} (its events are missing, or too many)"
            self._leave_out(ref, what)
            return []
        return raw.splitlines()


def cursor_of(refs: dict[str, Ref]) -> str:
    """Return how far each ref was read, as one short text: the ledger has it in a fact."""
    return " ".join(
        f"{ref.replica}:{ref.commit}:{ref.n}" for ref in refs.values() if ref.n or ref.commit
    )


def refs_of(cursor: str) -> dict[str, Ref]:
    refs = {}
    for word in cursor.split():
        replica, _, rest = word.partition(":")
        commit, _, n = rest.partition(":")
        if n.isdecimal():
            refs[replica] = Ref(replica, "", commit, int(n))
    return refs


# Writing


class Batch:
    """A commit that is to be written."""

    __slots__ = ("at_s", "data", "kind", "n", "parent", "replica")

    def __init__(
        self, replica: str, parent: str, kind: str, n: int, data: bytes, at_s: int
    ) -> None:
        self.replica = replica
        self.parent = parent
        """The commit before the first one of several for a replica."""
        self.kind = kind
        self.n = n
        self.data = data
        self.at_s = at_s


def batches_of(replica: str, parent: str, events: list[SharedEvent]) -> Iterator[Batch]:
    """Yield the batches of events that follow each other."""
    lines: list[bytes] = []
    size = 0
    for event, following in zip(events, [*events[1:], None], strict=True):
        line = line_of(event)
        if len(line) > MAX_EVENT_BYTES:
            why = f"event {event['n']} of {event['stream']} has {len(line):,} bytes"
            raise Fault("too_large", f"hub: {why}", f"at most {MAX_EVENT_BYTES:,} can be sent")
        lines.append(line)
        size += len(line)
        if following is None or size >= _BATCH_BYTES or len(lines) >= _BATCH_EVENTS:
            at_s = max(0, (epoch_ms(event["cause"]["at"]) or 0) // 1_000)
            yield Batch(replica, parent, EVENTS, event["n"], b"".join(lines), at_s)
            lines, size = [], 0


def write(mirror: Mirror, batches: list[Batch]) -> dict[str, str]:
    """Write batches as commits, with one git; return the last commit of each replica."""
    stream: list[bytes] = [b"feature done\n"]
    marks: list[str] = []
    for replica, group in groupby(batches, key=lambda batch: batch.replica):
        ref = f"{REFS}/{replica}"
        for position, batch in enumerate(group):
            message = f"holdfast {_FORM} {batch.kind} {batch.n}\n".encode()
            stream += [
                f"reset {ref}\n\n".encode() if position == 0 and not batch.parent else b"",
                f"commit {ref}\nmark :{len(marks) + 1}\n".encode(),
                f"committer Holdfast <> {batch.at_s} +0000\n".encode(),
                b"data %d\n%s\n" % (len(message), message),
                f"from {batch.parent}\n".encode() if position == 0 and batch.parent else b"",
                f"M 100644 inline {batch.kind}\n".encode(),
                b"data %d\n%s\n\n" % (len(batch.data), batch.data),
            ]
            if position:
                marks[-1] = ""
            marks.append(replica)
    stream += [f"get-mark :{i}\n".encode() for i, replica in enumerate(marks, 1) if replica]
    output = mirror.run(
        ("fast-import", "--quiet", "--force", "--done"), b"".join([*stream, b"done\n"])
    )
    replicas = [replica for replica in marks if replica]
    return dict(zip(replicas, output.decode().split(), strict=True))

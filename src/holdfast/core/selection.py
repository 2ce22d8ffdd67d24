"""Which workflow is mine? A pure answer over the catalog's rows.

Only start and resume bind a session. Whoever is not bound gets the one workflow of this worktree
and branch that no live session holds; what is merely the newest is named, never taken.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal, word
from holdfast.core.time import is_past

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.types import Fields, Workflow

ACTIVE = ("in_progress", "blocked")
NAMED = 5
"""So many are named where one is to be chosen; the answer for programs has them all."""


def has_run_out(row: Fields | Workflow, now_ms: int) -> bool:
    """Whether a workflow is active and has lain still for longer than its time to live."""
    return (
        row["status"] in ACTIVE
        and row["ttl"] is not None
        and is_past(now_ms, row["updated_at"], row["ttl"])
    )


class Asker:
    """Who asks, and from where."""

    __slots__ = ("born", "branch", "pid", "session", "worktree")

    def __init__(
        self,
        session: str | None,
        pid: int | None,
        born: int | None,
        worktree: str,
        branch: str | None,
    ) -> None:
        self.session = session
        self.pid = pid
        self.born = born
        self.worktree = worktree
        self.branch = branch

    def holds(self, row: Fields) -> bool:
        """Whether the row's workflow is bound to the asker: same session, or same client."""
        held = row["session"]
        if not held:
            return False
        same_client = (
            self.pid is not None
            and held.get("pid") == self.pid
            and may_be_same(self.born, held.get("born"))
        )
        return same_client or (bool(self.session) and held["id"] == self.session)

    def stands_on(self, row: Fields) -> bool:
        """Whether the asker is in the row's worktree, on its branch."""
        return row["worktree"] == self.worktree and (
            row["floating"] or row["branch"] is None or row["branch"] == self.branch
        )


def may_be_same(born: int | None, other: int | None) -> bool:
    """Whether two processes with one number may be the same, by when they were started."""
    return born is None or other is None or born == other


def choose(rows: list[Fields], asker: Asker, live: set[str]) -> Fields | Refusal:
    """The row that is the asker's; ``live`` are the ids of the sessions that still run."""
    active = [row for row in rows if row["status"] in ACTIVE]
    bound = [row for row in active if asker.holds(row)]
    if bound:
        # One process has several sessions in turn, and a session that comes back has its own.
        return own(bound, asker.session) or _newest(bound)
    here = [row for row in active if asker.stands_on(row)]
    free = [row for row in here if not row["session"] or row["session"]["id"] not in live]
    if len(free) == 1:
        return free[0]
    if free:
        return _which(free, "several workflows are active here", "ambiguous", asker)
    if here:
        return _held(here, asker)
    if active:
        return _elsewhere(active, asker)
    return Refusal(
        "not_found", "no workflow is active here", "holdfast start RECIPE SUBJECT", candidates=[]
    )


def own(rows: list[Fields], session: str | None) -> Fields | None:
    """The row that is bound to the session itself: then no other row matters."""
    active = [row for row in rows if row["status"] in ACTIVE and row["session"]]
    found = [row for row in active if row["session"]["id"] == session]
    return _newest(found) if found else None


def _newest(rows: list[Fields]) -> Fields:
    return max(rows, key=lambda row: int(row["session"].get("seq", 0)))


def listed(names: list[str], most: int = NAMED) -> str:
    """The first few of them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _which(rows: list[Fields], what: str, code: str, asker: Asker) -> Refusal:
    named = sorted(rows, key=lambda row: row["updated_at"], reverse=True)
    said = [f"{row['id']} ({row['title'][:40]})" for row in named]
    # Without a session, taking one up binds nobody; it only brings a workflow from elsewhere here.
    can_take = asker.session or code != "ambiguous"
    take = f", or holdfast resume {named[0]['id']}" if can_take else ""
    every = "; holdfast status lists them all" if len(named) > NAMED else ""
    return Refusal(
        code,
        f"{what}: {listed(said)}",
        f"name one: -w {named[0]['id']}{take}{every}",
        candidates=[row["id"] for row in named],
    )


def _held(rows: list[Fields], asker: Asker) -> Refusal:
    row = max(rows, key=lambda row: row["updated_at"])
    # A client tells who is asking with every command; a plain terminal has to say it.
    told = asker.session and asker.pid is not None
    who = "" if told else f" --session {word(asker.session or 'NAME')}"
    return Refusal(
        "held",
        f"{row['id']} is held by the live session {row['session']['id'][:40]}",
        f"-w {row['id']} acts on it all the same; holdfast resume {row['id']}{who} takes it over",
        candidates=[row["id"] for row in rows],
    )


def _elsewhere(rows: list[Fields], asker: Asker) -> Refusal:
    mine = [row for row in rows if row["worktree"] == asker.worktree]
    if mine:
        row = max(mine, key=lambda row: row["updated_at"])
        return Refusal(
            "other_branch",
            f"{row['id']} is for branch {row['branch']}; this is {asker.branch or 'no branch'}",
            f"git switch {word(row['branch'])}, or act on it by its name: -w {row['id']}",
            candidates=[row["id"] for row in mine],
        )
    return _which(rows, "no workflow is active in this worktree; elsewhere are", "not_found", asker)

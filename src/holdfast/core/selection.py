"""Select the workflow that a caller means, from rows. Pure.

A bound session gets its own workflow. A session that is not bound gets the one workflow of this
worktree and branch that no live session holds; if there are several, it has to name one. A person
gets the only workflow here also if a live session holds it.
"""

from __future__ import annotations

from holdfast.core.refusal import Refusal, shell_word
from holdfast.core.time import is_past

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from holdfast.core.types import Fields, Workflow

ACTIVE = ("in_progress", "blocked")
MAX_NAMED = 5
"""The number of candidates in a message. The JSON answer has all of them."""
SESSION_LIVES = "1h"
"""The time that a session whose process is unknown counts as live after its last change."""
_MADE_ID, _SHORT_ID = 24, 8
"""The length of an id that Holdfast makes, and of its beginning, which is shown."""
_EXPIRY = "expire workflow"
"""What a conflict calls the command that lets a workflow expire."""
ELSEWHERE = "@"
"""What the name of a worktree begins with that is on another machine."""


def has_run_out(row: Fields | Workflow, now_ms: int) -> bool:
    """Return whether a workflow is active and idle for longer than its time to live.

    It does not run out while somebody has to decide whether it has, after work on another machine.

    A row says nothing of conflicts, or of when a record was adopted, so for a row True only means
    that it may have run out.
    """
    ttl = row["ttl"]
    if row["status"] not in ACTIVE or ttl is None or not is_past(now_ms, row["updated_at"], ttl):
        return False
    conflicts: Any = row.get("conflicts", ())
    if any(conflict["command"] == _EXPIRY for conflict in conflicts):
        return False
    adopted_at: object = row.get("adopted_at")
    return not isinstance(adopted_at, str) or is_past(now_ms, adopted_at, ttl)


class Asker:
    """The caller: its session, process, worktree and branch.

    ``is_person``: it has no session, and no client started it.
    """

    __slots__ = ("born", "branch", "is_person", "pid", "session", "worktree")

    def __init__(
        self,
        session: str | None,
        pid: int | None,
        born: int | None,
        worktree: str,
        branch: str | None,
        *,
        is_person: bool = False,
    ) -> None:
        self.is_person = is_person
        self.session = session
        self.pid = pid
        self.born = born
        self.worktree = worktree
        self.branch = branch

    def owns(self, row: Fields) -> bool:
        """Return whether a workflow is bound to the asker's session or client process."""
        holder = row["session"]
        if not holder:
            return False
        same_client = (
            self.pid is not None
            and holder.get("pid") == self.pid
            and may_be_same(self.born, holder.get("born"))
        )
        return same_client or (bool(self.session) and holder["id"] == self.session)

    def is_at(self, worktree: str, branch: str | None, *, floating: bool) -> bool:
        """Return whether a workflow belongs to the asker's worktree and branch.

        A floating workflow has yet to make its branch, so it belongs to any.
        """
        return worktree == self.worktree and (floating or branch in (None, self.branch))


def short_id(conflict: str) -> str:
    """Return what is enough of a conflict's id to name it; ids of callers stay whole."""
    is_made = len(conflict) == _MADE_ID and conflict.isalnum()
    return conflict[:_SHORT_ID] if is_made else conflict


def machine_of(worktree: str) -> str | None:
    """Return the machine on which a worktree is; ``None`` if it is this one."""
    return worktree[1:] if worktree.startswith(ELSEWHERE) else None


def whereabouts(worktree: str, root: str | None) -> str:
    """Return in words where a workflow is that is not here; ``root`` is its worktree's folder."""
    machine = machine_of(worktree)
    if machine is not None:
        return f"on another machine ({machine})"
    return f"in another worktree ({root or worktree})"


def may_be_same(born: int | None, other: int | None) -> bool:
    """Return whether two processes with one pid may be the same process, by their start times."""
    return born is None or other is None or born == other


def live_sessions(
    rows: list[Fields],
    leases: dict[str, tuple[str, bool]],
    now_ms: int,
    is_running: Callable[[int, int | None], bool],
) -> set[str]:
    """Return the ids of the sessions in these rows that still run.

    ``leases`` has the holder of each stream that was taken from the pool, and whether the lease
    runs: for as long, its holder counts as live. ``is_running`` tells it of a process, by its
    number and start.
    """
    live = set()
    running: dict[tuple[int, int | None], bool] = {}
    for row in rows:
        binding = row["session"]
        if not binding or row["status"] not in ACTIVE:
            continue
        holder, is_held = leases.get(row["id"], ("", False))
        if holder == binding["id"]:
            is_live = is_held
        elif "pid" in binding:
            process = (binding["pid"], binding.get("born"))
            if process not in running:
                running[process] = is_running(*process)
            is_live = running[process]
        else:
            is_live = not is_past(now_ms, row["updated_at"], SESSION_LIVES)
        if is_live:
            live.add(binding["id"])
    return live


def choose(rows: list[Fields], asker: Asker, live: set[str]) -> Fields | Refusal:
    """Return the asker's row, or a refusal. ``live`` has the ids of sessions that still run."""
    active = [row for row in rows if row["status"] in ACTIVE]
    bound = [row for row in active if asker.owns(row)]
    if bound:
        # A client process has several sessions in turn; a session that returns has its own row.
        own = [row for row in bound if row["session"]["id"] == asker.session]
        return max(own or bound, key=lambda row: int(row["session"].get("seq", 0)))
    here = [
        row
        for row in active
        if asker.is_at(row["worktree"], row["branch"], floating=row["floating"])
    ]
    free = [row for row in here if not row["session"] or row["session"]["id"] not in live]
    candidates = free or (here if asker.is_person else [])
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        return _which(candidates, "several workflows are active here", "ambiguous", asker)
    if here:
        return _held(here, asker)
    if active:
        return _elsewhere(active, asker)
    return Refusal(
        "not_found", "no workflow is active here", "holdfast start RECIPE SUBJECT", candidates=[]
    )


def join_names(names: list[str], most: int = MAX_NAMED) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _which(rows: list[Fields], what: str, code: str, asker: Asker) -> Refusal:
    named = sorted(rows, key=lambda row: row["updated_at"], reverse=True)
    labels = [f"{row['id']} ({row['title'][:40]})" for row in named]
    # Without a session, resume binds nothing; it only moves a workflow from another worktree.
    can_take = asker.session or code != "ambiguous"
    take = f", or holdfast resume {named[0]['id']}" if can_take else ""
    every = "; holdfast status lists them all" if len(named) > MAX_NAMED else ""
    return Refusal(
        code,
        f"{what}: {join_names(labels)}",
        f"name one: -w {named[0]['id']}{take}{every}",
        candidates=[row["id"] for row in named],
    )


def _held(rows: list[Fields], asker: Asker) -> Refusal:
    """Return who works on the newest of these, and what the asker can do instead."""
    row = max(rows, key=lambda row: row["updated_at"])
    # A client passes its session with every command; in a plain terminal it must be given.
    is_client = asker.session and asker.pid is not None
    who = "" if is_client else f" --session {shell_word(asker.session or 'NAME')}"
    return Refusal(
        "held",
        f"the live session {row['session']['id'][:40]} works on {row['id']} ({row['title'][:40]})",
        f"act on this one once: -w {row['id']}; or take it over: holdfast resume {row['id']}{who}",
        candidates=[row["id"] for row in rows],
    )


def other_branch(row: Fields | Workflow, branch: str | None, candidates: list[str]) -> Refusal:
    """Return the refusal because a workflow is for another branch than the one checked out."""
    return Refusal(
        "other_branch",
        f"{row['id']} is for branch {row['branch']}; this is {branch or 'no branch'}",
        f"either git switch {shell_word(row['branch'])}, or act on it by its name: -w {row['id']}",
        candidates=candidates,
        branch=row["branch"],
    )


def _elsewhere(rows: list[Fields], asker: Asker) -> Refusal:
    mine = [row for row in rows if row["worktree"] == asker.worktree]
    if mine:
        row = max(mine, key=lambda row: row["updated_at"])
        return other_branch(row, asker.branch, [row["id"] for row in mine])
    return _which(rows, "no workflow is active in this worktree; elsewhere are", "not_found", asker)

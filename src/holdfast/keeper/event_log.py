"""The events that ``log`` lists: chosen by text, time, type, task and author.

With a limit, only the newest ``MAX_LOOKED_AT`` events are compared, so that a choice that fits few
events does not read a ledger of a million. If that left some out, a note says so.
"""

from __future__ import annotations

from itertools import islice
from operator import eq

from holdfast.core import diff, initiatives, logs, workflow
from holdfast.core import time as times
from holdfast.errors import Refused
from holdfast.keeper.audit import REPAIRED
from holdfast.keeper.replica import settings_of
from holdfast.storage.event_filter import EventFilter
from holdfast.storage.ledger import ARCHIVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.types import Event
    from holdfast.keeper.requests import Choice
    from holdfast.keeper.store import Store

MAX_LOOKED_AT = 50_000
_ANY = "*"


def event_types() -> list[str]:
    """Return every type of event that a ledger can have."""
    types = {REPAIRED, ARCHIVED, *workflow.OPENING, *workflow.EVOLVE, *diff.SHARING}
    types |= {"initiative_created", *initiatives.EVOLVE, *initiatives.EVOLVE_INITIATIVE}
    types.update(logs.ADOPTIONS.values(), *(log.appends for log in logs.LOGS.values()))
    return sorted(types)


def filter_of(store: Store, choice: Choice) -> EventFilter:
    """Return the filter that a caller asks for; raise ``Refused`` if a value cannot be meant."""
    hub = settings_of(store)
    return EventFilter(
        grep=choice.get("grep") or "",
        since=_moment(choice.get("since") or "", store.now_ms()),
        types=_types(choice.get("types") or ()),
        task=choice.get("task"),
        by=choice.get("by") or "",
        own_machine=hub["name"] if hub else "",
    )


def chosen(store: Store, stream: str | None, limit: int | None, choice: Choice) -> Iterator[Event]:
    """Yield the chosen events of one stream or of all, in order; only the newest ``limit``."""
    ledger, only = store.ledger, filter_of(store, choice)
    if limit is None:
        if stream is not None:
            next(ledger.events(stream), None)  # It raises ``Fault`` if an archive is missing.
        return ledger.chosen(only, stream)
    last = ledger.head_seq if stream is None else ledger.last_version(stream)
    above = max(0, last - MAX_LOOKED_AT)
    newest = list(islice(ledger.chosen(only, stream, above=above, newest=True), limit))
    if above and len(newest) < limit:
        store.note(
            f"only the newest {MAX_LOOKED_AT:,} events were looked at; without --limit all are"
        )
    return reversed(newest)


def _moment(text: str, now_ms: int) -> str:
    if not text:
        return ""
    moment = times.moment(text, now_ms)
    if moment is None:
        raise Refused(
            "invalid",
            f"log: {text[:40]!r} is neither a time, such as 2026-01-31 or 2026-01-31T09:30 (UTC), "
            "nor an age, such as 90m, 24h or 7d",
            "holdfast log --since 24h",
        )
    return moment


def _types(asked: Sequence[str]) -> list[str]:
    """Return the types that are asked for, each by its name or with a star at its end."""
    known = event_types()
    found: list[str] = []
    for name in asked:
        if name.endswith(_ANY):
            fitting = [kind for kind in known if kind.startswith(name[:-1])]
        else:
            fitting = [kind for kind in known if kind == name]
        if not fitting:
            raise _unknown_type(name, known)
        found += fitting
    return found


def _unknown_type(name: str, known: list[str]) -> Refused:
    from difflib import get_close_matches

    stem = name.rstrip(_ANY).partition("_")[0]
    near = [kind for kind in known if stem and kind.startswith(stem)]
    near = near or get_close_matches(name, known)
    message = f"log: no event has the type {name[:60]!r}"
    if not near:
        return Refused("invalid", f"{message}; each line shows its own", "holdfast log --limit 20")
    likeliest = max(near, key=lambda kind: sum(map(eq, kind, name)))
    message = f"{message}; there are {', '.join(near)}"
    return Refused("invalid", message, f"holdfast log --type {likeliest}")

"""What each page shows, as plain data. Every function here runs in a reading thread of the desk."""

from __future__ import annotations

from operator import itemgetter
from urllib.parse import quote, urlencode

from holdfast.core import json_text
from holdfast.core.next_step import next_step
from holdfast.core.workflow import is_active
from holdfast.core.workflow.lifecycle import describe_pending, other_context
from holdfast.core.workflow.needs import RUN, counts_in_words, failing_tests
from holdfast.core.workflow.questions import OPEN
from holdfast.errors import Refused
from holdfast.web import cards
from holdfast.web.event_words import event_row
from holdfast.web.snapshots import mark_conflicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.types import Event, Fields, Json, Workflow
    from holdfast.keeper import Keeper, Receipt
    from holdfast.web.desk import Desk, ListedRepository
    from holdfast.web.snapshots import Snapshot, Snapshots

_MAX_ENDED, _MAX_EVENTS, _MAX_WAITS = 8, 12, 40
_WAITS = ("question", "approve", "conflict", "unblock_phase", "unblock_task")
"""The kinds of what waits for a person, in the order of the page: answers cost the least."""
HISTORY = 200
"""The number of events on the first page of a history."""
MAX_HISTORY = 5_000
_MAX_VALUE_CHARS = 400
_MAX_CHANGES = 300


def workflow_path(key: str, workflow: str) -> str:
    """Return the path of a workflow's page."""
    return f"/w/{quote(key, safe='')}/{quote(workflow, safe='')}"


# The board


def look(
    desk: Desk, snapshots: Snapshots, key: str, before: tuple[str, int] | None
) -> list[Snapshot]:
    """Return what the board of one repository, or of all, is made of; raise ``Refused``.

    The same objects are returned for as long as nothing has changed.
    """
    chosen = [desk.find(key)] if key else desk.list()
    if before is not None:
        return [snapshots.page(repository, before) for repository in chosen]
    return [snapshots.of(repository) for repository in chosen]


def board(desk: Desk, snapshots: Snapshots, shown: list[Snapshot]) -> Fields:
    """Return everything on the board."""
    known = {snapshot.key: snapshot for snapshot in shown}
    return {
        **_merged(shown),
        "repositories": [_listed(repository, known, snapshots) for repository in desk.list()],
        "faults": [{"name": s.name, "text": s.fault} for s in shown if s.fault],
        "more": [
            {"name": s.name, "href": "/?" + urlencode({"repository": s.key, "before": _cursor(s)})}
            for s in shown
            if s.next is not None
        ],
    }


def _cursor(snapshot: Snapshot) -> str:
    assert snapshot.next is not None
    return " ".join(map(str, snapshot.next))


def _listed(
    repository: ListedRepository, known: dict[str, Snapshot], snapshots: Snapshots
) -> Fields:
    snapshot = known.get(repository.key) or snapshots.known(repository)
    active = 0 if snapshot is None else snapshot.active
    return {
        "key": repository.key, "name": repository.name, "root": repository.root, "active": active
    }  # fmt: skip


def _merged(shown: list[Snapshot]) -> Fields:
    """Return what several repositories have, together."""
    all_cards = [
        {**card, "href": workflow_path(card["repository"], card["id"])}
        for snapshot in shown
        for card in snapshot.cards
    ]
    all_cards.sort(key=itemgetter("updated_at"), reverse=True)
    events = _newest((row for s in shown for row in s.events), "at", _MAX_EVENTS)
    ended = _newest((row for s in shown for row in s.ended), "updated_at", _MAX_ENDED)
    asking = [
        {**card, "href": workflow_path(card["repository"], card["id"])}
        for snapshot in shown
        for card in snapshot.asking
    ]
    waits = [{"card": card, "wait": one} for card in all_cards + asking for one in card["waits"]]
    waits.sort(key=lambda row: _WAITS.index(row["wait"]["kind"]))
    return {
        "active": sum(snapshot.active for snapshot in shown),
        "live": len({card["holder"] for card in all_cards if card["is_live"]}),
        "waits": waits[:_MAX_WAITS],
        "requests": [request for snapshot in shown for request in snapshot.requests][:_MAX_WAITS],
        "lanes": _lanes([card for card in all_cards if not card["is_loop"]]),
        "loops": [card for card in all_cards if card["is_loop"]],
        "holders": _holders(all_cards),
        "initiatives": [one for snapshot in shown for one in snapshot.initiatives],
        "hubs": [_hub(snapshot) for snapshot in shown if snapshot.hub],
        "events": [{**row, "href": _event_href(row)} for row in events],
        "ended": [{**row, "href": workflow_path(row["repository"], row["id"])} for row in ended],
    }


def _newest(rows: Iterable[Fields], key: str, most: int) -> list[Fields]:
    return sorted(rows, key=itemgetter(key), reverse=True)[:most]


def _event_href(row: Fields) -> str:
    if not row["is_workflow"]:
        return f"/?repository={quote(row['repository'], safe='')}"
    return f"{workflow_path(row['repository'], row['stream'])}/at?seq={row['seq']}"


def _lanes(all_cards: list[Fields]) -> list[Fields]:
    """Return a lane for each recipe, the fullest first, with the cards in its phases."""
    by_recipe: dict[str, list[Fields]] = {}
    for card in all_cards:
        by_recipe.setdefault(card["recipe"], []).append(card)
    lanes = []
    for recipe, own in by_recipe.items():
        names = list(dict.fromkeys(phase["name"] for card in own for phase in card["phases"]))
        at = {name: [card for card in own if card["phase"] == name] for name in names}
        rest = [card for card in own if card["phase"] not in at]
        columns = [{"name": name, "cards": at[name]} for name in names]
        if rest:
            columns.append({"name": "no phase", "cards": rest})
        is_narrow = sum(bool(column["cards"]) for column in columns) == 1
        lanes.append(
            {"recipe": recipe, "count": len(own), "phases": columns, "is_narrow": is_narrow}
        )
    return sorted(lanes, key=lambda lane: -int(lane["count"]))


def _holders(all_cards: list[Fields]) -> list[Fields]:
    """Return each session with the workflows that it holds, live ones first."""
    held: dict[str, Fields] = {}
    for card in all_cards:
        if card["holder"]:
            mine = held.setdefault(
                card["holder"], {"holder": card["holder"], "is_live": False, "cards": []}
            )
            mine["is_live"] = mine["is_live"] or card["is_live"]
            mine["cards"].append(card)
    return sorted(held.values(), key=lambda mine: not mine["is_live"])


def _hub(snapshot: Snapshot) -> Fields:
    hub = snapshot.hub or {}
    replicas = sorted(hub["replicas"], key=lambda replica: not replica["own"])
    return {
        "name": snapshot.name,
        "kind": hub["hub"]["kind"],
        "replicas": replicas,
        "unsent": hub["unsent"],
        "conflicts": hub["conflicts"],
        "failed": bool(hub.get("last", {}).get("failed")),
    }


# One workflow


def _look(desk: Desk, key: str, workflow: str) -> tuple[ListedRepository, Keeper, Receipt]:
    repository = desk.find(key)
    keeper = desk.keeper(repository)
    return repository, keeper, keeper.show(workflow=workflow)


def _head(repository: ListedRepository, keeper: Keeper, state: Workflow) -> Fields:
    """Return what every page of a workflow begins with."""
    card, row = cards.card(state), dict(state)
    head = {
        **card,
        "repository": repository.key,
        "repository_name": repository.name,
        "href": workflow_path(repository.key, state["id"]),
        "do": f"/do{workflow_path(repository.key, state['id'])[2:]}",
        "is_live": card["holder"] in keeper.session.live([row]),
    }
    mark_conflicts(keeper, [head])
    return head


def now(desk: Desk, key: str, workflow: str) -> Fields:
    """Return a workflow as it is now."""
    repository, keeper, receipt = _look(desk, key, workflow)
    state = receipt.state
    step = next_step(state, receipt.facts, is_named=True)
    missing = keeper.missing_reading(state)
    return {
        "card": _head(repository, keeper, state),
        "step": None if step is None else {"about": step.about, "text": step.text},
        "tasks": cards.tasks(state),
        "gates": cards.gates(state),
        "tests": _tests(state),
        "reading": [
            {"path": path, "is_read": path in state["read"], "is_missing": path in missing}
            for path in state["required_reading"]
        ],
        "reminders": state["reminders"],
        "questions": [
            {"text": one["text"], "status": one["status"], "answer": one.get("answer") or ""}
            for one in state.get("questions", ())
            if one["status"] != OPEN
        ],
        "violations": state["violations"],
        "guardrails": [str(one.get("text") or one) for one in state.get("guardrails", [])],
        "context": [(name, _brief(value)) for name, value in other_context(state).items()],
        "files": [str(one.get("path") or "") for one in state["files"]],
        "may_act": is_active(state),
        "ended_by": _ended_by(state),
        "notes": receipt.notes,
    }


def _ended_by(state: Workflow) -> list[str]:
    """Return the outcome of a workflow, the reason of its end, and what was skipped by force."""
    texts = [str(state[name]) for name in ("outcome", "reason") if state.get(name)]
    if state.get("skipped"):
        texts.append(f"completed by force, skipped: {describe_pending(state['skipped'])}")
    return texts


def _tests(state: Workflow) -> Fields | None:
    tests = state["tests"]
    if not tests.get("test_command"):
        return None
    evidence = "Holdfast ran them" if tests.get("evidence") == RUN else "claimed"
    return {
        "passed": tests.get("last_result") == "passed",
        "about": " · ".join(
            [str(tests.get("last_result") or "not run"), *counts_in_words(tests), evidence]
        ),
        "command": tests["test_command"],
        "failing": failing_tests(tests)[:50],
    }


def _brief(value: Json) -> str:
    """Return a value in at most ``_MAX_VALUE_CHARS`` characters."""
    text = value if isinstance(value, str) else json_text.dumps(value)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"


def history(desk: Desk, key: str, workflow: str, most: int) -> Fields:
    """Return a workflow's events, newest first, by day."""
    repository, keeper, receipt = _look(desk, key, workflow)
    card = _head(repository, keeper, receipt.state)
    events = keeper.log(workflow=workflow, limit=most + 1)[::-1]
    rows = [_history_row(card["href"], event) for event in events[:most]]
    days: list[Fields] = []
    for row in rows:
        if not days or days[-1]["name"] != row["at"][:10]:
            days.append({"name": row["at"][:10], "events": []})
        days[-1]["events"].append(row)
    return {
        "card": card,
        "days": days,
        "events": rows,
        "has_more": len(events) > most,
        "more": f"{card['href']}/history?most={min(most * 5, MAX_HISTORY)}",
        "first_seq": rows[-1]["seq"] if rows else 0,
        "last_seq": rows[0]["seq"] if rows else 0,
        "notes": receipt.notes,
    }


def _history_row(href: str, event: Event) -> Fields:
    return {**event_row(event), "href": f"{href}/at?seq={event['seq']}"}


def briefing(desk: Desk, key: str, workflow: str) -> Fields:
    """Return what an agent that took the workflow up now would be told."""
    repository, keeper, receipt = _look(desk, key, workflow)
    text = keeper.briefing(workflow=workflow)
    return {
        "card": _head(repository, keeper, receipt.state), "text": text, "notes": receipt.notes
    }  # fmt: skip


def moment(desk: Desk, key: str, workflow: str, seq: int | None, number: int | None) -> Fields:
    """Return a workflow as it was after an event, by its seq or its number in the workflow."""
    repository, keeper, receipt = _look(desk, key, workflow)
    card = _head(repository, keeper, receipt.state)
    events = keeper.log(workflow=workflow, limit=MAX_HISTORY)
    position = _position(events, seq, number)
    event = events[position]
    state = keeper.state_at(event["seq"], workflow=workflow).state
    before = events[position - 1]["seq"] if position else event["seq"] - 1

    def href(at: int) -> str:
        return f"{card['href']}/at?seq={events[at]['seq']}" if 0 <= at < len(events) else ""

    compare = urlencode({"a": event["seq"], "b": events[-1]["seq"]})
    return {
        "card": card,
        "event": event_row(event),
        "seq": event["seq"],
        "number": position + 1,
        "count": len(events),
        "earlier": href(position - 1),
        "later": href(position + 1),
        "compare": f"{card['href']}/compare?{compare}",
        "was": {
            **cards.card(state),
            "tasks": cards.tasks(state),
            "reminders": state["reminders"],
        },
        "changed": _changes(keeper, workflow, before, event["seq"]),
        "notes": [],
    }


def _position(events: list[Event], seq: int | None, number: int | None) -> int:
    """Return the position of the event that is meant, the last one by default."""
    if not events:
        raise Refused("not_found", "no event of it can be read", "holdfast verify")
    if seq is not None:
        earlier = [place for place, event in enumerate(events) if event["seq"] <= seq]
        return earlier[-1] if earlier else 0
    if number is not None:
        return min(max(number, 1), len(events)) - 1
    return len(events) - 1


def compare(desk: Desk, key: str, workflow: str, a: int, b: int) -> Fields:
    """Return what changed in a workflow from one event to another."""
    repository, keeper, receipt = _look(desk, key, workflow)
    return {
        "card": _head(repository, keeper, receipt.state),
        "a": a,
        "b": b,
        "changed": _changes(keeper, workflow, a, b),
        "notes": [],
    }


def _changes(keeper: Keeper, workflow: str, a: int, b: int) -> list[Fields]:
    """Return what differs between the states after two events, a row for each value."""
    rows = []
    for change in keeper.changes(workflow, a, b)[:_MAX_CHANGES]:
        kind = "changed" if {"was", "now"} <= change.keys() else "added"
        rows.append({
            "about": change["about"],
            "was": _brief(change["was"]) if "was" in change else None,
            "now": _brief(change["now"]) if "now" in change else None,
            "kind": kind if "now" in change else "removed",
        })  # fmt: skip
    return rows


# Search


def search(desk: Desk, words: str, most: int) -> Fields:
    """Return what has all of the words, in all repositories, the best match first."""
    listed = desk.list()
    if not (words and listed):
        return {"results": [], "notes": []}
    keeper = desk.keeper(listed[0])
    found = keeper.search(words, limit=most, everywhere=True)
    keys = {repository.project: repository for repository in listed}
    results = [_result(keys.get(hit["repository"]), hit) for hit in found["hits"]]
    return {"results": results, "notes": keeper.drain_notes()}


def _result(repository: ListedRepository | None, hit: Fields) -> Fields:
    """Return a hit as the page shows it, its text in pieces: those that match have a mark."""
    stream, text = hit["stream"], hit["text"]
    pieces, position = [], 0
    for begin, end in hit["marks"]:
        pieces += [{"text": text[position:begin], "is_match": False}]
        pieces += [{"text": text[begin:end], "is_match": True}]
        position = end
    pieces.append({"text": text[position:], "is_match": False})
    href = ""
    if repository is not None and not stream.startswith("_"):
        at = "" if hit["seq"] is None else f"/at?seq={hit['seq']}"
        href = workflow_path(repository.key, stream) + at
    return {
        "repository_name": "" if repository is None else repository.name,
        "href": href,
        "title": hit["title"] or hit["kind"],
        "type": hit["type"].replace("_", " "),
        "seq": hit["seq"],
        "pieces": pieces,
        "at": hit["at"],
    }

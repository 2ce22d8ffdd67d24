"""A page costs the same whatever else the ledger has: every query is answered by an index."""

import json
import re

import pytest

from holdfast.web import views
from holdfast.web.desk import Desk
from holdfast.web.snapshots import PAGE, Snapshots
from support.workshop import Workshop

FEW, MANY = 5 * PAGE, 20 * PAGE
"""More than the 200 workflows among which a command chooses."""
EVERY_OPCODES = 10


class Statements:
    """The statements that a look sends to SQLite, and about how many instructions they take."""

    def __init__(self):
        self.texts = {}
        self.opcodes = 0

    def watch(self, keeper):
        """Count what this keeper's connection does from now on."""
        keeper.log(limit=1)  # It opens the ledger.
        self.connection = keeper.store.ledger.database._connection
        self.connection.set_trace_callback(self.texts.setdefault)
        self.connection.set_progress_handler(self._step, EVERY_OPCODES)

    def _step(self):
        self.opcodes += EVERY_OPCODES
        return 0

    def plans(self):
        """Return each query with its plan."""
        self.connection.set_trace_callback(None)
        for text in self.texts:
            if text.lstrip().upper().startswith("SELECT"):
                rows = self.connection.execute(f"EXPLAIN QUERY PLAN {text}").fetchall()
                yield text, [row[3] for row in rows]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return a function that fills a repository with so many active and ended workflows."""

    def fill(name, number):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"state of {name}"))
        shop = Workshop(tmp_path / name)
        keeper = shop.keeper()
        first = keeper.start("planning", "first", tasks=["one", "two"]).state["id"]
        events = keeper.log(workflow=first)
        text = json.dumps([{"type": event["type"], "data": event["data"]} for event in events])
        with keeper.session.transaction() as tx:
            for position in range(2 * number):
                own = f"plan-{position:05}"
                tx.append(own, json.loads(text.replace(first, own)), None)
                if position % 2:
                    tx.do(own, "abandon_workflow", {"reason": "enough"})
            tx.commit()
        return Desk(shop.root, is_person=True, clock_ms=shop.clock)

    return fill


def looks(desk):
    """Return, for each page, the statements of a look at it by a fresh keeper."""
    (repository,) = desk.list()
    snapshots = Snapshots(desk)
    key, workflow = repository.key, "plan-00004"
    seq = desk.keeper(repository).log(workflow=workflow)[0]["seq"]
    cursor = None

    def board():
        (snapshot,) = views.look(desk, snapshots, key, None)
        assert len(snapshot.cards) == PAGE
        assert not snapshot.fault
        nonlocal cursor
        cursor = (str(snapshot.next[0]), snapshot.next[1])
        return views.board(desk, snapshots, [snapshot])

    pages = {
        "board": board,
        "next page": lambda: views.look(desk, snapshots, key, cursor),
        "now": lambda: views.now(desk, key, workflow),
        "history": lambda: views.history(desk, key, workflow, 200),
        "briefing": lambda: views.briefing(desk, key, workflow),
        "moment": lambda: views.moment(desk, key, workflow, seq, None),
        "compare": lambda: views.compare(desk, key, workflow, seq, seq + 1),
    }
    for name, look in pages.items():
        statements = Statements()
        statements.watch(desk.keeper(repository))
        assert look()
        yield name, statements


def test_no_query_of_a_page_goes_through_a_whole_table(place):
    scanning = re.compile(r"SCAN (events|streams|states|records|shared_events)\b")
    seen = 0
    for name, statements in looks(place("many", FEW)):
        for text, plan in statements.plans():
            seen += 1
            for step in plan:
                if scanning.match(step):
                    # In the order of an index or of the key, it ends at the limit.
                    is_ordered = "INDEX" in step or "ORDER BY seq DESC" in text
                    assert is_ordered, (name, text, plan)
                    assert "LIMIT" in text, (name, text, plan)
                assert "TEMP B-TREE" not in step or "LIMIT" not in text, (name, text, plan)
    assert seen > 20


def test_a_page_takes_no_more_work_among_many_workflows_than_among_few(place):
    few = {name: statements.opcodes for name, statements in looks(place("few", FEW))}
    many = {name: statements.opcodes for name, statements in looks(place("many", MANY))}
    for name, opcodes in few.items():
        # The count of active workflows goes up to a limit that neither of them reaches.
        counted = 8 * (MANY - FEW) if "board" in name or "page" in name else 0
        assert many[name] <= opcodes * 1.1 + counted + 200, (name, opcodes, many[name])

"""What is asked of the ledger all the time finds its rows by an index, however long it is."""

import pytest

from holdfast.hooks.handlers import handle
from holdfast.storage.database import Database
from support.workshop import Workshop

SESSION = "one"
BIG = ("events", "streams", "states", "records")
BOUNDED = ("active_by_", "streams_with_unread")
"""Indexes over active workflows alone, which may be read whole."""


class Recorder:
    """Keeps each statement that was run, with one set of its values."""

    def __init__(self, monkeypatch):
        self.statements = {}
        rows, execute = Database.rows, Database.execute

        def recording(original):
            def run(database, statement, values=()):
                self.statements.setdefault(statement, values)
                return original(database, statement, values)

            return run

        monkeypatch.setattr(Database, "rows", recording(rows))
        monkeypatch.setattr(Database, "execute", recording(execute))

    def plans(self, shop):
        """Yield each statement with the steps of its plan."""
        database = shop.keeper().store.ledger.database
        for statement, values in list(self.statements.items()):
            if statement.split()[0] in ("SELECT", "UPDATE", "DELETE", "INSERT"):
                plan = list(database.rows(f"EXPLAIN QUERY PLAN {statement}", values))
                yield statement, [row[3] for row in plan]


def scans(statement, steps):
    """Return the steps that read a big table, or everything that ended, from end to end."""
    found = []
    for step in steps:
        words = step.split()
        is_scan = words[0] == "SCAN" and words[1] in BIG
        is_bounded = any(f"INDEX {name}" in step for name in BOUNDED)
        if is_scan and not is_bounded and "LIMIT" not in statement:
            found.append(step)
    return found


@pytest.fixture
def shop(tmp_path):
    shop = Workshop(tmp_path)
    shop.write("docs/rules.md", "rules")
    shop.write(".claude/holdfast.toml", 'enforce = ["stop"]\n')
    for number in range(3):
        keeper = shop.keeper(session=f"earlier {number}")
        keeper.start("dev", f"docs/{number}.md", tasks=["one"])
        keeper.complete(force=True, reason="done")
    shop.keeper(session=SESSION).start("dev", "a.md", tasks=["one"], reading=["@docs/rules.md"])
    return shop


def hook(shop, name, **fields):
    event = {"hook_event_name": name, "session_id": SESSION, "cwd": shop.root, **fields}
    handle(event, shop.root)


HOT = {
    "task": lambda shop: shop.keeper(session=SESSION).start_task(1),
    "id": lambda shop: [shop.keeper().remind("x", id="again") for _ in range(2)],
    "start": lambda shop: shop.keeper(session="two").start("dev", "b.md", tasks=["one"]),
    "status": lambda shop: shop.keeper().workflows(),
    "SessionStart": lambda shop: hook(shop, "SessionStart", source="compact"),
    "SessionStart of another": lambda shop: handle(
        {"hook_event_name": "SessionStart", "source": "compact", "session_id": "new"}, shop.root
    ),
    "Stop": lambda shop: hook(shop, "Stop", stop_hook_active=False),
    "PostToolUse": lambda shop: hook(
        shop, "PostToolUse", tool_name="Read", tool_input={"file_path": "docs/rules.md"}
    ),
    "resume": lambda shop: shop.keeper(session=SESSION).resume(),
    "completed": lambda shop: shop.keeper(session="nobody").session.completed(),
}


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_never_reads_a_big_table_from_end_to_end(shop, name, monkeypatch):
    recorder = Recorder(monkeypatch)
    HOT[name](shop)
    found = {text: steps for text, plan in recorder.plans(shop) if (steps := scans(text, plan))}
    # Cleaning runs once an hour, and looks at the records that are still there.
    found = {text: steps for text, steps in found.items() if "JOIN records" not in text}
    assert found == {}
    assert any("SEARCH" in step for _, plan in recorder.plans(shop) for step in plan)


def test_a_session_that_completed_nothing_is_not_compared_with_all_that_ended(shop, monkeypatch):
    """A filter beside the limit would read on until enough rows fit it."""
    recorder = Recorder(monkeypatch)
    keeper = shop.keeper(session="earlier 1")
    assert keeper.session.completed()["subject"] == "docs/1.md"
    (text,) = [text for text in recorder.statements if "status = 'completed'" in text]
    inner = text[text.index("(SELECT stream") : text.index(") AND status")]
    assert "LIMIT ?" in inner
    assert "session_id" not in inner

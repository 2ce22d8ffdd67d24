"""An older schema is brought up to date by whoever opens the ledger first; a newer one is read."""

import pytest

from holdfast.errors import Fault
from holdfast.storage import database

STEP = "ALTER TABLE facts ADD COLUMN since TEXT;"
NEXT = database.SCHEMA_VERSION + 1
READ_SQL = database._sql


def _add_migration(monkeypatch, statements):
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, "next.sql"))
    monkeypatch.setattr(database, "SCHEMA_VERSION", NEXT)
    sql = {"next.sql": statements}
    monkeypatch.setattr(database, "_sql", lambda name: sql.get(name) or READ_SQL(name))


@pytest.fixture
def newer(monkeypatch):
    """A Holdfast whose schema is one version further."""
    _add_migration(monkeypatch, STEP)


def columns(keeper):
    return [row[1] for row in keeper.store.ledger.database.rows("PRAGMA table_info(facts)")]


def test_a_reader_brings_an_older_schema_up_to_date(dev_shop, newer):
    keeper = dev_shop.keeper()
    assert [row["recipe"] for row in keeper.workflows()[0]] == ["dev"]
    assert "since" in columns(keeper)
    assert keeper.store.ledger.database.row("PRAGMA user_version") == (NEXT,)


def test_a_writer_brings_an_older_schema_up_to_date_and_loses_nothing(dev_shop, newer):
    dev_shop.keeper().add_task("one")
    keeper = dev_shop.keeper()
    assert "since" in columns(keeper)
    assert keeper.verify().ok


def test_a_migration_that_fails_leaves_the_old_schema(dev_shop, monkeypatch):
    _add_migration(monkeypatch, f"{STEP}\nnonsense;")
    with pytest.raises(Fault):
        dev_shop.keeper().add_task("one")
    monkeypatch.undo()
    keeper = dev_shop.keeper()
    assert columns(keeper) == ["name", "value"]
    assert keeper.add_task("one").seqs


def test_a_newer_schema_is_read_and_not_written(dev_shop, monkeypatch):
    _add_migration(monkeypatch, STEP)
    dev_shop.keeper().add_task("one")
    monkeypatch.undo()
    keeper = dev_shop.keeper()
    assert [row["recipe"] for row in keeper.workflows()[0]] == ["dev"]
    with pytest.raises(Fault) as refused:
        keeper.add_task("two")
    assert refused.value.code == "newer_ledger"

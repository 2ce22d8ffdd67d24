"""An older schema is brought up to date by whoever opens the ledger first; a newer one is read."""

import pytest

from holdfast.errors import Fault
from holdfast.storage import database

STEP = "ALTER TABLE facts ADD COLUMN since TEXT;"


@pytest.fixture
def newer(monkeypatch):
    """A Holdfast whose schema is one version further."""
    monkeypatch.setattr(database, "MIGRATIONS", (STEP,))
    monkeypatch.setattr(database, "SCHEMA_VERSION", 2)


def columns(keeper):
    return [row[1] for row in keeper.store.ledger.database.rows("PRAGMA table_info(facts)")]


def test_a_reader_brings_an_older_schema_up_to_date(dev_shop, newer):
    keeper = dev_shop.keeper()
    assert [row["recipe"] for row in keeper.workflows()[0]] == ["dev"]
    assert "since" in columns(keeper)
    assert keeper.store.ledger.database.row("PRAGMA user_version") == (2,)


def test_a_writer_brings_an_older_schema_up_to_date_and_loses_nothing(dev_shop, newer):
    dev_shop.keeper().add_task("one")
    keeper = dev_shop.keeper()
    assert "since" in columns(keeper)
    assert keeper.verify().ok


def test_a_migration_that_fails_leaves_the_old_schema(dev_shop, newer, monkeypatch):
    monkeypatch.setattr(database, "MIGRATIONS", (f"{STEP}\nnonsense;",))
    with pytest.raises(Fault):
        dev_shop.keeper().add_task("one")
    monkeypatch.undo()
    keeper = dev_shop.keeper()
    assert columns(keeper) == ["name", "value"]
    assert keeper.add_task("one").seqs


def test_a_newer_schema_is_read_and_not_written(dev_shop, monkeypatch):
    monkeypatch.setattr(database, "MIGRATIONS", (STEP,))
    monkeypatch.setattr(database, "SCHEMA_VERSION", 2)
    dev_shop.keeper().add_task("one")
    monkeypatch.undo()
    keeper = dev_shop.keeper()
    assert [row["recipe"] for row in keeper.workflows()[0]] == ["dev"]
    with pytest.raises(Fault) as refused:
        keeper.add_task("two")
    assert refused.value.code == "newer_ledger"

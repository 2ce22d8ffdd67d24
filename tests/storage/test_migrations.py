"""An older schema is brought up to date by whoever opens the ledger first; a newer one is read."""

import pytest

from holdfast.errors import Fault
from holdfast.storage import database
from support.workshop import Workshop

STEP = "ALTER TABLE facts ADD COLUMN since TEXT;"


@pytest.fixture
def shop(tmp_path):
    shop = Workshop(tmp_path)
    shop.keeper().start("dev", "a.md")
    return shop


@pytest.fixture
def newer(monkeypatch):
    """A Holdfast whose schema is one version further."""
    monkeypatch.setattr(database, "MIGRATIONS", (STEP,))
    monkeypatch.setattr(database, "SCHEMA_VERSION", 2)


def columns(keeper):
    return [row[1] for row in keeper.store.ledger.database.rows("PRAGMA table_info(facts)")]


def test_a_reader_brings_an_older_schema_up_to_date(shop, newer):
    keeper = shop.keeper()
    assert [row["recipe"] for row in keeper.workflows()[0]] == ["dev"]
    assert "since" in columns(keeper)
    assert keeper.store.ledger.database.schema_version() == 2


def test_a_writer_brings_an_older_schema_up_to_date_and_loses_nothing(shop, newer):
    shop.keeper().add_task("one")
    keeper = shop.keeper()
    assert "since" in columns(keeper)
    assert keeper.verify().ok


def test_a_migration_that_fails_leaves_the_old_schema(shop, newer, monkeypatch):
    monkeypatch.setattr(database, "MIGRATIONS", (f"{STEP}\nnonsense;",))
    with pytest.raises(Fault):
        shop.keeper().add_task("one")
    monkeypatch.undo()
    keeper = shop.keeper()
    assert columns(keeper) == ["name", "value"]
    assert keeper.add_task("one").seqs


def test_a_newer_schema_is_read_and_not_written(shop, monkeypatch):
    monkeypatch.setattr(database, "MIGRATIONS", (STEP,))
    monkeypatch.setattr(database, "SCHEMA_VERSION", 2)
    shop.keeper().add_task("one")
    monkeypatch.undo()
    keeper = shop.keeper()
    assert [row["recipe"] for row in keeper.workflows()[0]] == ["dev"]
    with pytest.raises(Fault) as refused:
        keeper.add_task("two")
    assert refused.value.code == "newer_ledger"

"""What is adopted can be stored, shown, exported and imported again; what cannot is kept aside.

A limit that is checked when a file is read must hold for what is written from it, too, or a record
of a stranger would make the ledger unreadable for its own limits.
"""

import json
import os
import time

import pytest

from holdfast import Initiatives
from holdfast.core.json_text import MAX_DEPTH, MAX_INPUT_DEPTH, MAX_VALUES
from holdfast.errors import HoldfastError, Refused
from holdfast.formats import LOGS
from holdfast.system.disk import MAX_RECORD_BYTES
from support.workshop import FORMATS, Workshop, worked_on

pytestmark = pytest.mark.promise(10)

LOG_CHANGES = {
    "interview": lambda keeper: keeper.interviews().record("word", 0.5),
    "delegation": lambda keeper: keeper.delegations().record("word", outcome="ok"),
    "learning": lambda keeper: keeper.remember("word"),
    "forge": lambda keeper: keeper.note_forge("word", "make"),
    "initiatives": lambda keeper: Initiatives(keeper).create(f"goal {time.time_ns()}", ["M1"]),
}


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def as_long_as_can_be(document):
    return "x" * (MAX_RECORD_BYTES - 100 - len(json.dumps(document)))


def as_many_as_can_be(document):
    return [0] * (MAX_VALUES - 10 - sum(map(json.dumps(document).count, ",[{")))


HOSTILE = {
    **{f"{levels} levels": deep(levels) for levels in range(MAX_DEPTH - 13, MAX_DEPTH + 1)},
    "a number of 63 digits": 10**62,
    "a number of 65 digits": 10**64,
    "a long text": "x" * 100_000,
    "many keys": {f"k{number}": 0 for number in range(5_000)},
    "a control character": "\x1b[2J\x00",
}


class Clone:
    """A fresh repository with a stranger's record in it."""

    def __init__(self, folder, path, document):
        self.shop = Workshop(folder)
        self.path = path
        self.raw = json.dumps(document).encode()
        self.shop.write(path, self.raw)

    def is_kept(self):
        """Return True if the stranger's file is still there, under its name or beside it."""
        here = os.path.exists(self.shop.path(self.path)) and self.shop.read(self.path) == self.raw
        return here or self.raw in self.shop.beside(self.path).values()

    def reformat(self, path):
        """Save the record as an editor does, with other spaces."""
        self.shop.write(path, json.dumps(self.shop.document(path), indent=1))

    def check_ledger(self, folder):
        """Verify the ledger, and take its export into another one."""
        assert self.shop.keeper().verify().ok
        other = Workshop(folder)
        other.write("export", "\n".join(self.shop.keeper().export()) + "\n")
        assert other.keeper().import_file(other.path("export")).events
        assert other.keeper().verify().ok


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A record of each kind: its path and its document, without our signature."""
    top = tmp_path_factory.mktemp("records")
    found = {}
    for kind in (*FORMATS, *LOGS):
        shop = Workshop(top / kind)
        if kind in LOGS:
            LOG_CHANGES[kind](shop.keeper())
            path = LOGS[kind]
        else:
            path = worked_on(shop.keeper(), kind)["record"]
        document = shop.document(path)
        document.pop("_holdfast")
        found[kind] = path, document
    return found


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_record_is_adopted_for_good_or_kept_as_it_is(records, tmp_path, kind, what):
    check_adopted_or_kept(records[kind], tmp_path, HOSTILE[what])


@pytest.mark.parametrize("largest", [as_long_as_can_be, as_many_as_can_be])
def test_a_record_that_would_outgrow_its_limit_is_kept_as_it_is(records, tmp_path, largest):
    """It could be read once. Our own record of it would be larger, and could not be written."""
    assert not check_adopted_or_kept(records["skill"], tmp_path, largest(records["skill"][1]))


def check_adopted_or_kept(record, tmp_path, value):
    """Work beside a stranger's record, and with it if it is adopted; return the adopted names."""
    path, document = record
    clone = Clone(tmp_path / "clone", path, {**document, "from_elsewhere": value})
    keeper = clone.shop.keeper()
    own = keeper.start("tdd", "work of our own").state["id"]
    keeper.remind("it goes on", workflow=own)
    names = [row["id"] for row in clone.shop.keeper().workflows()[0] if row["id"] != own]
    if not names:
        assert clone.is_kept()
    for name in names:
        clone.shop.keeper().resume(workflow=name)
        record = clone.shop.keeper().remind("adopted", workflow=name).state["record"]
        clone.reformat(record)
        receipt = clone.shop.keeper().remind("reformatted", workflow=name)
        assert not [note for note in receipt.notes if "refused" in note]
    clone.check_ledger(tmp_path / "other")
    return names


@pytest.mark.parametrize("what", [name for name in HOSTILE if "levels" in name])
@pytest.mark.parametrize("kind", LOGS)
def test_a_log_is_adopted_for_good_or_kept_as_it_is(records, tmp_path, kind, what):
    path, document = records[kind]
    clone = Clone(tmp_path / "clone", path, {**document, "from_elsewhere": HOSTILE[what]})
    LOG_CHANGES[kind](clone.shop.keeper())
    is_adopted = b"from_elsewhere" in clone.shop.read(path)
    assert is_adopted or clone.is_kept()
    clone.reformat(path)
    receipt = LOG_CHANGES[kind](clone.shop.keeper())
    assert not [note for note in receipt.notes if "refused" in note]
    clone.check_ledger(tmp_path / "other")


def test_a_record_with_very_many_tasks_is_not_adopted(records, tmp_path):
    path, document = records["skill"]
    tasks = [{"id": number, "description": "x"} for number in range(10_001)]
    clone = Clone(tmp_path / "clone", path, {**document, "tasks": tasks})
    notes = clone.shop.keeper().workflows()[1]
    assert any("more than 10,000 tasks" in note for note in notes)
    clone.shop.keeper().start("tdd", "work of our own")
    assert clone.is_kept()


def test_an_edit_that_could_not_be_read_back_is_refused_and_kept(tmp_path):
    shop = Workshop(tmp_path)
    state = worked_on(shop.keeper(), "skill")
    # The format keeps what it does not know some levels further down.
    shop.edit(state["record"], lambda document: document.update(extra=deep(MAX_DEPTH - 1)))
    raw = shop.read(state["record"])
    receipt = shop.keeper().remind("go on", workflow=state["id"])
    document = shop.document(state["record"])
    if "extra" not in document:
        assert any("nested too deeply" in note for note in receipt.notes)
        assert raw in shop.beside(state["record"]).values()


@pytest.mark.parametrize("levels", range(MAX_INPUT_DEPTH - 3, MAX_INPUT_DEPTH + 3))
def test_a_value_of_a_command_can_be_read_back_or_is_refused(tmp_path, levels):
    clone = Clone(tmp_path / "work", "unrelated.json", {})
    keeper = clone.shop.keeper()
    state = worked_on(keeper, "skill")
    try:
        keeper.set_context({"deep": deep(levels)}, workflow=state["id"])
    except Refused as refused:
        assert "nested too deeply" in refused.message
    clone.reformat(state["record"])
    receipt = clone.shop.keeper().remind("again", workflow=state["id"])
    assert not [note for note in receipt.notes if "refused" in note]
    clone.check_ledger(tmp_path / "other")


def test_more_records_than_can_be_looked_at_are_said_and_stop_nobody(tmp_path):
    shop = Workshop(tmp_path)
    for number in range(300):
        shop.write(f".claude/workflow-state/active/dev-{number:08x}.json", "{")
    rows, notes = shop.keeper().workflows()
    assert rows == []
    assert any("more files have the name of a record" in note for note in notes)
    shop.keeper().start("dev", "work")


def test_a_line_of_an_export_that_is_too_long_is_refused(tmp_path, monkeypatch):
    from holdfast.keeper import transfer

    monkeypatch.setattr(transfer, "_MAX_LINE_BYTES", 1_000)
    shop = Workshop(tmp_path)
    shop.write("export", b"{" + b" " * 5_000)
    with pytest.raises(HoldfastError, match="a line has more than 1,000 bytes"):
        shop.keeper().import_file(shop.path("export"))

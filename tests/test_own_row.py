"""A session's own workflow is found without a look at the others, and is the same one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Keeper, Refused
from holdfast.ledger import file as ledger_file

SESSIONS = ("one", "on", 'o\'ne "1"', "ünö", None)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("start", "resume", "note", "complete")),
        st.sampled_from(SESSIONS),
        st.integers(0, 3),
    ),
    max_size=14,
)


def _step(folder, what, session, number):
    keeper = Keeper(folder, session=session)
    workflow = f"w{number}"
    if what == "start":
        keeper.start("custom", workflow)
    elif what == "resume":
        keeper.resume(workflow=workflow)
    elif what == "note":
        keeper.set_context({"n": 1}, workflow=workflow)
    else:
        keeper.abandon("no more", workflow=workflow)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, segment=st.sampled_from((1, 900, 1 << 20)))
def test_the_quick_way_gives_what_a_look_at_all_gives(tmp_path_factory, steps, segment):
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_file, "SEGMENT_BYTES", segment)
        for step in steps:
            try:
                _step(folder, *step)
            except Refused:
                continue
        for session in SESSIONS:
            caller = Keeper(folder, session=session)._caller
            caller.engine.refresh()
            quick, whole = caller.picked(), caller.chosen(caller.rows())
            assert getattr(quick, "code", quick) == getattr(whole, "code", whole)


def test_other_records_are_not_even_opened(tmp_path, monkeypatch):
    for number in range(5):
        Keeper(tmp_path).start("custom", f"w{number}")
    Keeper(tmp_path, session="mine").resume(workflow="w3")
    keeper = Keeper(tmp_path, session="mine")
    read = []
    store = keeper._caller.engine.store
    look = store.read
    monkeypatch.setattr(store, "read", lambda path: read.append(path) or look(path))
    assert keeper.mine()["id"] == "w3"
    assert {path.split("/")[-2] for path in read} == {"w3"}


def test_a_catalog_in_which_the_session_was_damaged_is_not_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_file, "SEGMENT_BYTES", 1)
    keeper = Keeper(tmp_path, session="mine")
    keeper.start("custom", "one")
    later = keeper.start("custom", "two").state["id"]
    path = tmp_path / ".claude" / "holdfast" / "catalog.ndjson"
    rows = path.read_bytes().split(b"\n")
    rows = [row.replace(b'"mine"', b'"mino"') if later.encode() in row else row for row in rows]
    path.write_bytes(b"\n".join(rows))
    assert Keeper(tmp_path, session="mine").mine()["id"] == later

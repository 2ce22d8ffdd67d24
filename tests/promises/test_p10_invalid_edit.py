"""Promise 10: an invalid edit: the last good state is served, the file kept, the line named."""

import contextlib
import json
import os

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.core.json_text import MAX_DEPTH
from support.editors import LIMITS, no_leases
from support.workshop import FORMATS, Workshop, lines_of, many, types, without_time, worked_on

pytestmark = pytest.mark.promise(10)

EXAMPLES = many(60, 1_500)
each_format = pytest.mark.parametrize("record_format", FORMATS)
drawn = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(-(10**70), 10**70),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["completed", "pending", "../..", "\u202e", "\x00", "7d"]),
    st.lists(st.integers(0, 2), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
)


def places(value, found=None):
    """Every container in a document, with each of its keys."""
    found = [] if found is None else found
    for key, below in value.items() if isinstance(value, dict) else enumerate(value):
        found.append((value, key))
        if isinstance(below, (dict, list)):
            places(below, found)
    return found


@st.composite
def changed_values(draw, raw):
    """The record with one to three values deleted, replaced or added."""
    document = json.loads(raw)
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(places(document)))
        action = draw(st.sampled_from(["delete", "replace", "insert"]))
        if action == "replace" or (action == "delete" and key == "_holdfast"):
            container[key] = draw(values)
        elif action == "delete":
            del container[key]
        elif isinstance(container, list):
            container.insert(key, draw(values))
        else:
            container[draw(st.sampled_from(["x", "id", "status", "phase", "recipe", ""]))] = draw(
                values
            )
    return json.dumps(document, indent=1).encode("utf-8", "surrogatepass")


@st.composite
def changed_bytes(draw, raw):
    """The record's text cut, overwritten or doubled somewhere."""
    start = draw(st.integers(0, len(raw)))
    end = draw(st.integers(start, min(len(raw), start + 200)))
    return raw[:start] + draw(st.binary(max_size=8) | st.just(raw[start:end] * 2)) + raw[end:]


class Served:
    """A workflow whose record is spoiled again and again."""

    def __init__(self, folder, record_format):
        self.shop = Workshop(folder, git=False)
        self.state = worked_on(self.shop.keeper(), record_format)
        self.id, self.record = self.state["id"], self.state["record"]
        self.good = self.shop.read(self.record)
        self.events = len(self.shop.keeper().log())
        self.kept = self._kept()

    def _kept(self):
        """Return the files of the ledger, without SQLite's shared memory, and the index."""
        files = self.shop.files().items()
        return {
            path: data
            for path, data in files
            if os.path.basename(path).startswith(("ledger.db", "index.json"))
            and not path.endswith("-shm")
        }

    def again(self):
        """Put everything back as it was at the beginning."""
        for name in self.shop.beside(self.record):
            os.unlink(os.path.join(os.path.dirname(self.shop.path(self.record)), name))
        for path in self._kept():
            os.unlink(self.shop.path(path))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.shop.path(f"{path}-shm"))
        for path, data in self.kept.items():
            self.shop.write(path, data)
        self.shop.write(self.record, self.good)

    def check(self, spoiled, *, sound=True):
        """Whatever stands there, there is an answer, and nothing that was written is gone."""
        self.again()
        self.shop.write(self.record, spoiled)
        rows, _ = self.shop.keeper().workflows()
        look = self.shop.keeper().settle(workflow=self.id)
        notes = look.notes
        kept = self.shop.beside(self.record)
        news = types(self.shop.keeper())[self.events :]
        if kept:
            assert list(kept.values()) == [spoiled]
            assert without_time(look.state) == without_time(self.state)
            name = next(iter(kept))
            assert ".rejected-" in name
            # An edit of ``seq`` makes an edit of an older record, which can clash with the newer.
            says = ("line ", "was changed since")
            assert any(name in note and any(map(note.__contains__, says)) for note in notes), notes
            assert news == []
        else:
            assert set(news) <= {
                "record_edited",
                "record_adopted",
                "workflow_completed",
                "phase_completed",
                "workflow_expired",
            }
        if look.state["status"] in ("in_progress", "blocked"):
            assert [row["id"] for row in rows] == [self.id]
            self.shop.keeper().remind("afterwards", workflow=self.id)
        self.shop.keeper().briefing(workflow=self.id)
        assert lines_of(self.shop.keeper()) == [] or not sound
        return kept


@pytest.fixture(scope="module")
def all_served(tmp_path_factory):
    return {one: Served(tmp_path_factory.mktemp(one), one) for one in FORMATS}


@pytest.fixture
def served(all_served, record_format):
    return all_served[record_format]


@each_format
@drawn
@given(data=st.data())
def test_values_of_every_kind_in_every_place_have_an_answer(served, data):
    served.check(data.draw(changed_values(served.good)))


@each_format
@drawn
@given(data=st.data())
def test_text_that_was_cut_or_overwritten_has_an_answer(served, data):
    served.check(data.draw(changed_bytes(served.good)))


@each_format
@drawn
@given(spoiled=st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode()))
@example(spoiled=b"\xff\xfe{}")
@example(spoiled=b"null")
@example(spoiled=b"[]")
@example(spoiled=b'"text"')
@example(spoiled=b"{}{}")
def test_anything_at_all_in_its_place_has_an_answer(served, spoiled):
    served.check(spoiled)


def with_line(raw, line):
    """The record with a line of its own before its second line, which must be named."""
    first, _, rest = raw.partition(b"\n")
    return first + b"\n\n\n" + line + b"\n" + rest


LINES = {
    "not a number": b'"x": NaN,',
    "infinite": b'"x": -Infinity,',
    "too large": b'"x": 1e999,',
    "a huge integer": b'"x": ' + b"9" * 5_000 + b",",
    "half a pair": b'"x": "\\ud83d",',
    "half a pair in a key": b'"\\udc00": 1,',
    "not UTF-8": b'"x": "\xff",',
    "a key twice": b'"x": 1, "y": {"x": 2}, "x": 3,',
    "too deep": b'"x": ' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b",",
    "far too deep": b'"x": ' + b"[" * 100_000 + b"]" * 100_000 + b",",
    "a comment": b"// why not",
    "a control character": b'"x": "\x01",',
    "a trailing comma": b'"x": [1,],',
    "single quotes": b"'x': 1,",
}


@each_format
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_what_json_forbids_is_named_with_its_line(served, line):
    spoiled = with_line(served.good, line)
    served.again()
    served.shop.write(served.record, spoiled)
    look = served.shop.keeper().settle(workflow=served.id)
    assert look.state == served.state
    assert any("line 4:" in note for note in look.notes), look.notes
    assert list(served.shop.beside(served.record).values()) == [spoiled]
    assert served.shop.read(served.record) == served.good


@each_format
def test_the_key_that_stands_twice_may_be_any(served):
    """``jq`` and ``json`` would take the last of the two; here nobody guesses."""
    key = next(iter(json.loads(served.good)))
    kept = served.check(with_line(served.good, json.dumps(key).encode() + b": null,"))
    assert len(kept) == 1


@each_format
def test_a_record_too_large_is_kept_aside(served):
    spoiled = served.good + b" " * (17 * 1024 * 1024)
    assert len(served.check(spoiled)) == 1


@each_format
@pytest.mark.parametrize("keys", [["digest"], ["rest"], ["digest", "rest"], ["seq", "hash"]])
def test_an_envelope_without_its_parts_is_an_edit_or_refused(served, keys):
    document = json.loads(served.good)
    for key in keys:
        del document["_holdfast"][key]
    served.check(json.dumps(document).encode())


@each_format
@pytest.mark.parametrize(
    "value", [None, 7, "x", [], {}, {"rest": 7}, {"digest": [1]}, {"seq": "x"}]
)
def test_any_envelope_has_an_answer(served, value):
    document = json.loads(served.good)
    document["_holdfast"] = value
    served.check(json.dumps(document).encode())


@each_format
def test_a_record_without_its_envelope_is_an_edit_of_the_state(served):
    document = json.loads(served.good)
    del document["_holdfast"]
    assert served.check(json.dumps(document).encode()) == {}
    served.again()
    served.shop.write(served.record, json.dumps(document).encode())
    look = served.shop.keeper().settle(workflow=served.id)
    assert look.state["phase"] == served.state["phase"]
    assert look.state["reminders"] == served.state["reminders"]
    assert [task["status"] for task in look.state["tasks"]] == [
        task["status"] for task in served.state["tasks"]
    ]


@each_format
def test_the_same_mistake_twice_is_kept_twice(served):
    served.again()
    for _ in range(2):
        served.shop.write(served.record, b"{?")
        served.shop.keeper().settle(workflow=served.id)
    assert list(served.shop.beside(served.record).values()) == [b"{?", b"{?"]


@each_format
@pytest.mark.parametrize("depth", [70, 400, 700, 850, 900, 940, 960, 980])
def test_a_deep_record_of_a_forger_has_an_answer(served, depth):
    """Its digest is right, so it is nobody's slip; it must not break anything all the same."""
    from holdfast.core.json_text import digest
    from holdfast.formats import sign

    document = json.loads(served.good)
    claims = document.pop("_holdfast")
    document["x"] = ["here"]
    for seq, event_hash in ((claims["seq"], claims["hash"]), (10**6, "0" * 32)):
        own = {"ledger": claims["ledger"], "seq": seq, "hash": event_hash}
        raw = sign(document, claims["rest"], own)
        deep = raw.replace(b'["here"]', b"[" * depth + b"]" * depth)
        before, mark, after = deep.partition(b'"digest": "')
        text = before + after[34:]
        forged = before + mark + digest(text).encode() + b'",' + after[34:]
        served.check(forged, sound=False)


@each_format
def test_a_forged_digest_without_an_envelope_has_an_answer(served):
    from holdfast.core.json_text import digest

    for before, after in (
        (b"{", b'"a": 1}'),
        (b"[{", b'"a": 1}]'),
        (b'{"_holdfast": 7, ', b'"a": 1}'),
    ):
        served.check(before + b'"digest": "' + digest(before + after).encode() + b'",' + after)


@pytest.mark.parametrize("limit", LIMITS)
@each_format
def test_an_invalid_edit_has_an_answer_on_a_file_system_that_can_do_less(
    served, limit, monkeypatch
):
    LIMITS[limit](monkeypatch)
    broken = served.good.replace(b"{", b"{,", 1)
    assert list(served.check(broken).values()) == [broken]
    assert served.check(served.good.replace(b"T-17", b"T-18", 1)) == {}


@each_format
def test_without_leases_a_file_that_changed_a_moment_ago_is_read_again(
    record_format, tmp_path, monkeypatch
):
    """A tool on another machine: the file is half written, and complete 80 ms later."""
    no_leases(monkeypatch)
    shop = Workshop(tmp_path, git=False)
    state = worked_on(shop.keeper(), record_format)
    edited = shop.read(state["record"]).replace(b"T-17", b"T-18", 1)
    waited = []

    def pause(seconds):
        waited.append(seconds)
        if sum(waited) >= 0.08:
            shop.write(state["record"], edited)

    shop.write(state["record"], edited[: len(edited) // 2])
    look = shop.keeper(sleep=pause).settle(workflow=state["id"])
    assert look.state["context"]["ticket"] == "T-18"
    assert shop.beside(state["record"]) == {}

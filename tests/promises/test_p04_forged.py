"""Promise 4, further: lines that have a right hash and say what no Holdfast ever wrote. Somebody
forged them, or a mistake of ours did. Every command answers, and ``verify`` names the line.
"""

import copy
import json
import os
import random

import pytest

from holdfast import Fault
from holdfast.cli import main as cli
from holdfast.ledger import lines
from workshop import HOME, LEDGER, SEED, Workshop, many

pytestmark = pytest.mark.promise(4)

HISTORIES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "histories")
HISTORY = os.path.join(HISTORIES, "0.1.0", "ledger.ndjson")
OTHERS = (None, True, 7, -1, "x", "", [], ["x"], [[]], {}, {"a": 1}, [{"a": [1]}])
FIXED = ("seq", "v", "prev", "hash")
SAMPLE = many(80, 1_600)
ASKED = (
    ("status",),
    ("status", "--json"),
    ("log",),
    ("verify",),
    ("remind", "be kind"),
    ("repair",),
    ("verify", "--json"),
    ("status",),
)


def events():
    with open(HISTORY, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def chained(forged):
    """The lines of the events, each with a right hash and a right ``prev``."""
    raw, prev = b"", ""
    for event in forged:
        body = {key: value for key, value in event.items() if key != "hash"}
        line, prev = lines.encode({**body, "prev": prev})
        raw += line
    return raw


def places(value, path=()):
    """Every place in a JSON value."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def forgeries():
    """Each place of each event, with each other value."""
    for number, event in enumerate(events()):
        for path in places({key: event[key] for key in event if key not in FIXED}):
            for other in OTHERS:
                yield number, path, other


def forged(number, path, other):
    found = events()
    target = found[number]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = copy.deepcopy(other)
    return found


class Line:
    """The command line in this process."""

    def __init__(self, shop, monkeypatch, capsys):
        self.capsys = capsys
        monkeypatch.chdir(shop.root)
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "")

    def run(self, *words):
        code = cli.main(list(words))
        told = self.capsys.readouterr()
        text = told.out + told.err
        assert "an error in Holdfast itself" not in text, (words, text)
        return code, text


def ask_everything(line, streams):
    for words in ASKED[:4]:
        line.run(*words)
    for stream in streams:
        line.run("show", stream)
        line.run("resume", stream)
    for words in ASKED[4:]:
        line.run(*words)


def place_ledger(shop, found, *, closed):
    raw = chained(found)
    if not closed:
        shop.write(LEDGER, raw)
        return
    split = raw.splitlines(keepends=True)
    half = len(split) // 2
    shop.write(f"{HOME}/ledger-{1:010}-{half:010}.ndjson", b"".join(split[:half]))
    shop.write(LEDGER, b"".join(split[half:]))


@pytest.mark.parametrize("part", range(4))
def test_whatever_a_line_says_every_command_answers(part, quick, monkeypatch, capsys):
    chosen = random.Random(SEED).sample(list(forgeries()), SAMPLE)[part::4]
    for count, (number, path, other) in enumerate(chosen):
        shop = Workshop(os.path.join(quick, str(count)), git=False)
        found = forged(number, path, other)
        place_ledger(shop, found, closed=count % 2)
        streams = list(dict.fromkeys(event["stream"] for event in events()))
        try:
            ask_everything(Line(shop, monkeypatch, capsys), streams)
        except BaseException as error:
            error.add_note(f"event {number + 1} {found[number]['type']}: {path} is {other!r}")
            raise


NONSENSE = [
    ("workflow_started", ["recipe"], 7),
    ("workflow_started", ["recipe", "format"], "store"),
    ("workflow_started", ["recipe", "phases"], [5]),
    ("workflow_started", ["record"], ["x"]),
    ("workflow_resumed", ["session"], ["x"]),
    ("phase_started", ["phase"], "nowhere"),
    ("task_added", ["description"], {"a": 1}),
    ("task_started", ["task"], {"a": 1}),
    ("reading_required", ["path"], [[]]),
    ("gate_recorded", ["gate"], 5),
    ("violation_found", [], {}),
    ("record_edited", ["changes"], [[["phases"], [], 5]]),
    ("record_adopted", ["state", "tasks"], "none"),
]


def first(event_type):
    return next(number for number, event in enumerate(events()) if event["type"] == event_type)


@pytest.mark.parametrize(("event_type", "path", "value"), NONSENSE)
def test_what_makes_no_sense_is_named_by_its_line_and_can_be_given_up(
    tmp_path, monkeypatch, capsys, event_type, path, value
):
    shop = Workshop(tmp_path, git=False)
    number = first(event_type)
    place_ledger(shop, forged(number, ("data", *path), value), closed=False)
    line = Line(shop, monkeypatch, capsys)
    code, text = line.run("verify")
    assert code == 1
    assert f"ledger.ndjson:{number + 1}  error: event {number + 1} makes no sense" in text
    line.run("repair")
    assert line.run("verify")[0] == 0


def test_data_that_is_a_list_is_no_event(tmp_path, monkeypatch, capsys):
    shop = Workshop(tmp_path, git=False)
    place_ledger(shop, forged(9, ("data",), [1]), closed=False)
    code, text = Line(shop, monkeypatch, capsys).run("verify")
    assert code == 1
    assert "ledger.ndjson:10  error: this line is no event" in text


def test_an_event_that_makes_no_sense_is_left_out_with_a_note(tmp_path):
    shop = Workshop(tmp_path, git=False)
    number = first("task_started")
    place_ledger(shop, forged(number, ("data", "task"), {"a": 1}), closed=False)
    receipt = shop.keeper().show(workflow=events()[number]["stream"])
    assert f"event {number + 1} makes no sense and is left out: holdfast verify" in receipt.notes
    assert [task["id"] for task in receipt.state["tasks"]] == [1, 2, 3]


def test_a_workflow_without_a_beginning_is_not_in_the_way_of_the_others(tmp_path):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    lost = keeper.start("tdd", "lost").state
    kept = keeper.start("planning", "kept").state
    keeper.remind("the last word", workflow=lost["id"])
    found = keeper.log()
    found[0]["data"]["recipe"] = 7
    place_ledger(shop, found, closed=False)
    os.remove(shop.path(lost["record"]))
    rows, notes = shop.keeper().workflows()
    assert [row["id"] for row in rows] == [kept["id"]]
    assert any(lost["id"] in note for note in notes)
    assert shop.keeper().remind("on", workflow=kept["id"]).state["reminders"] == ["on"]
    with pytest.raises(Fault) as caught:
        shop.keeper().show(workflow=lost["id"])
    assert caught.value.code == "lost_events"


def test_a_number_far_ahead_is_not_counted_up_to(tmp_path):
    shop = Workshop(tmp_path, git=False)
    found = events()
    found[-1]["seq"] = 10**15
    place_ledger(shop, found, closed=False)
    assert any("are missing" in line["message"] for line in shop.keeper().verify().lines)

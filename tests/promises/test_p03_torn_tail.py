"""Promise 3: a torn tail never hides or glues other events."""

import hashlib
import json
import os
import random
import shutil

import pytest

from workshop import FORMATS, HOME, LEDGER, SEED, Workshop, lines_of, sampled, worked_on

pytestmark = pytest.mark.promise(3)

SAMPLE = 40
TWO_EVENTS = [lambda keeper, workflow: keeper.advance(workflow=workflow)]
ONE_EVENT = [lambda keeper, workflow: keeper.remind("the last word", workflow=workflow)]
ENDINGS = {"one-then-two": ONE_EVENT + TWO_EVENTS, "two-then-one": TWO_EVENTS + ONE_EVENT}


def events_in(raw):
    """The ledger's events by a reading of its own: every line whole, every hash right."""
    events = []
    for line in raw.split(b"\n")[:-1]:
        event = json.loads(line)
        body = line[: line.rindex(b',"hash":')]
        assert hashlib.blake2b(body, digest_size=16).hexdigest() == event["hash"], line
        events.append(event)
    assert raw.endswith(b"\n")
    return events


def whole_commits(raw):
    """The events of all commits that are whole in these bytes; a lost last newline is no harm."""
    events, commit = [], []
    for line in raw.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            break
        commit.append(event)
        number, total = event.get("part", [1, 1])
        if number == total:
            events, commit = events + commit, []
    return events


class Torn:
    """A workspace whose ledger ends in two known commits, to be torn again and again."""

    def __init__(self, folder, record_format, ending):
        self.folder = folder
        first = Workshop(folder / "first", git=False)
        keeper = first.keeper()
        state = worked_on(keeper, record_format)
        before = len(first.read(LEDGER))
        for act in ENDINGS[ending]:
            state = act(keeper, state["id"]).state
        self.state = state
        self.whole = first.read(LEDGER)
        self.cuts = range(before, len(self.whole) + 1)
        self.files = first.files()
        self.clock = first.clock

    def workshop(self, ledger):
        """The same workspace again, with these bytes as its ledger."""
        shop = Workshop(self.folder / "again", git=False)
        shutil.rmtree(shop.root)
        for path, data in self.files.items():
            shop.write(path, data)
        shop.write(LEDGER, ledger)
        shop.clock.ms = self.clock.ms
        return shop


@pytest.fixture(params=list(ENDINGS))
def torn(request, tmp_path):
    return Torn(tmp_path, "skill", request.param)


def check_goes_on(torn, ledger, *, with_record=True):
    """A command on the torn ledger; what was whole is still there, and nothing is in its way."""
    shop = torn.workshop(ledger)
    if not with_record:
        os.unlink(shop.path(torn.state["record"]))
    kept = whole_commits(ledger)
    receipt = shop.keeper().remind("afterwards", workflow=torn.state["id"])
    found = events_in(shop.read(LEDGER))
    assert found[: len(kept)] == kept
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    assert found[-1]["type"] == "reminder_added"
    fresh = shop.keeper()
    assert fresh.log() == found
    assert fresh.show(workflow=torn.state["id"]).state == receipt.state
    assert lines_of(fresh) == []
    torn_off = ledger.removeprefix(shop_bytes(kept, ledger))
    assert b"".join(shop.quarantined()) == torn_off
    return receipt.state


def shop_bytes(kept, ledger):
    """The bytes of the kept events, with the last newline as far as it is there."""
    lines = ledger.split(b"\n")[: len(kept)]
    return (b"\n".join(lines) + b"\n")[: len(ledger)]


def test_truncated_at_every_byte_the_next_command_goes_on_from_what_was_whole(torn, tally):
    cuts = sampled(torn.cuts, SAMPLE, "cuts")
    for cut in cuts:
        state = check_goes_on(torn, torn.whole[:cut])
        # The record had seen the events that were torn off.
        assert state["reminders"] == [*torn.state["reminders"], "afterwards"]
        assert state["phase"] == torn.state["phase"]
    tally("torn tails", cuts=len(cuts))


def test_truncated_at_every_byte_the_ledger_alone_goes_on_too(torn, tally):
    cuts = sampled(torn.cuts, SAMPLE, "alone")
    for cut in cuts:
        state = check_goes_on(torn, torn.whole[:cut], with_record=False)
        assert state["reminders"][-1] == "afterwards"
    tally("torn tails", cuts=len(cuts))


def test_truncated_inside_the_very_first_commit_the_record_brings_the_workflow_back(tmp_path):
    torn = Torn(tmp_path, "skill", "one-then-two")
    first_commit = torn.whole.index(b'"part":[5,5]')
    for cut in sampled(range(first_commit), SAMPLE, "first"):
        state = check_goes_on(torn, torn.whole[:cut])
        assert state["phase"] == torn.state["phase"]


@pytest.mark.parametrize("record_format", FORMATS)
def test_an_acknowledged_event_that_lost_its_newline_stays(record_format, tmp_path):
    for ending in ENDINGS:
        torn = Torn(tmp_path / ending, record_format, ending)
        shop = torn.workshop(torn.whole[:-1])
        keeper = shop.keeper()
        assert keeper.show(workflow=torn.state["id"]).state == torn.state
        keeper.remind("afterwards", workflow=torn.state["id"])
        assert shop.read(LEDGER).startswith(torn.whole)
        assert shop.quarantined() == []
        assert lines_of(shop.keeper()) == []


def tails():
    chance = random.Random(SEED)
    noise = [chance.randbytes(length).replace(b"\n", b"?") for length in (1, 2, 80, 5_000)]
    zeros = [b"\0" * length for length in (1, 7, 4_096)]
    return [*zeros, *noise, b"{", b'{"seq":', b"}" * 40, b'"}', b" ", b"\r"]


@pytest.mark.parametrize("tail", tails(), ids=lambda tail: f"{len(tail)}-{tail[:4].hex()}")
def test_a_tail_of_zeros_or_noise_goes_to_quarantine(torn, tail):
    check_goes_on(torn, torn.whole + tail)
    shop = torn.workshop(torn.whole + tail)
    shop.keeper().remind("again", workflow=torn.state["id"])
    assert shop.quarantined() == [tail]


def test_a_tail_of_zeros_after_a_torn_commit_goes_with_it(torn):
    for cut in sampled(torn.cuts, 10, "zeros"):
        check_goes_on(torn, torn.whole[:cut] + b"\0" * 512)


def test_noise_with_line_ends_is_named_and_hides_nothing(torn):
    noise = b"\0\0\0\n{not an event}\n\n\xff\xfe"
    shop = torn.workshop(torn.whole + noise)
    keeper = shop.keeper()
    keeper.remind("afterwards", workflow=torn.state["id"])
    kept = whole_commits(torn.whole)
    assert keeper.log()[: len(kept)] == kept
    assert keeper.log()[-1]["data"] == {"text": "afterwards"}
    line = torn.whole.count(b"\n") + 1
    said = " ".join(lines_of(keeper))
    assert f"ledger.ndjson:{line}" in said
    assert f"ledger.ndjson:{line + 1}" in said
    assert keeper.repair().ok
    assert lines_of(shop.keeper()) == []
    assert shop.keeper().log()[: len(kept)] == kept
    events_in(shop.read(LEDGER))


def test_readers_leave_a_torn_tail_where_it_is(torn):
    cut = torn.whole[:-20]
    shop = torn.workshop(cut)
    keeper = shop.keeper()
    assert keeper.log() == whole_commits(cut)
    # That its record has seen more is another matter: nothing tears off what was acknowledged.
    assert [line for line in lines_of(keeper) if line.startswith("error ledger")] == []
    assert any("bytes after the last commit" in line for line in lines_of(keeper))
    assert shop.read(LEDGER) == cut


@pytest.mark.parametrize("words", [["repair"], ["status"], ["remind", "through a process"]])
def test_each_command_line_sees_to_a_torn_tail(torn, words):
    shop = torn.workshop(torn.whole[:-20])
    done = shop.run(*words)
    assert done.returncode == 0, done.stderr
    assert lines_of(shop.keeper()) == []
    events_in(shop.read(LEDGER))
    assert len(shop.quarantined()) == 1
    state = shop.keeper().show(workflow=torn.state["id"]).state
    assert state["phase"] == torn.state["phase"]


def test_the_link_in_gits_folder_is_mended_with_the_ledger(tmp_path):
    shop = Workshop(tmp_path)
    keeper = shop.keeper()
    state = worked_on(keeper, "skill")
    whole = shop.read(LEDGER)
    with open(shop.path(LEDGER), "ab") as file:
        file.write(whole[-40:-5])
    shop.keeper().remind("afterwards", workflow=state["id"])
    mirrored = shop.read(".git/holdfast/ledger.ndjson")
    assert mirrored == shop.read(LEDGER)
    assert os.path.samefile(shop.path(".git/holdfast/ledger.ndjson"), shop.path(LEDGER))
    assert events_in(mirrored)[-1]["data"] == {"text": "afterwards"}
    assert os.listdir(shop.path(HOME, "quarantine"))

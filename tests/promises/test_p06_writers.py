"""Promise 6: with many writers nothing is lost, nothing is there twice, and history has one order
that everybody who had an answer agrees with.

64 lanes of processes, a quarter of them real command lines and the others library writers, send
commands to one workspace at the same time; many are killed on the way, some ask again.
"""

import os
import threading

import pytest

from promises.journeys import Site
from promises.writers import CommandLane, LibraryLane
from workshop import SEED, many

pytestmark = pytest.mark.promise(6)

LANES = 64
COMMAND_LANES = 16
COMMANDS = (many(3, 20), many(8, 60))
"""So many commands a command-line lane and a library lane send."""


def history(site, workflows, seed):
    """Runs all lanes at once; what they sent, and how many processes were killed."""
    by_line, by_library = COMMANDS
    lanes = [
        (CommandLane if number < COMMAND_LANES else LibraryLane)(
            site.root, number, workflows, by_line if number < COMMAND_LANES else by_library, seed
        )
        for number in range(LANES)
    ]
    threads = [threading.Thread(target=lane.run) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lane in lanes:
        if lane.raised is not None:
            raise lane.raised
    return [sent for lane in lanes for sent in lane.sent], sum(lane.kills for lane in lanes)


def check_found_once(sent, events):
    """What was acknowledged is there once, where the receipt said; the rest at most once."""
    seqs = {}
    for event in events:
        seqs.setdefault(event["id"], []).append(event["seq"])
    for one in sent:
        found = seqs.get(one.name, [])
        if one.acknowledged:
            assert found == one.seqs, one.name
        elif one.code:
            assert found == [], (one.name, one.code)
        else:
            assert len(found) <= 1, one.name


def check_linearizable(sent, events):
    """Whoever began after another had its answer comes after it in history."""
    place = {event["id"]: event["seq"] for event in events}
    answers = sorted((one.acknowledged, one.seqs[-1]) for one in sent if one.acknowledged)
    newest, position = 0, 0
    for one in sorted((one for one in sent if one.name in place), key=lambda one: one.began):
        while position < len(answers) and answers[position][0] < one.began:
            newest = max(newest, answers[position][1])
            position += 1
        assert place[one.name] > newest, one.name


def check_contiguous(events):
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    versions = {}
    for event in events:
        versions.setdefault(event["stream"], []).append(event["version"])
    for counted in versions.values():
        assert counted == list(range(1, len(counted) + 1))


def check_states(site, events, workflows):
    """Every workflow shows exactly its events, in their order."""
    for workflow in workflows:
        told = [
            e["data"]["text"] for e in events if e["stream"] == workflow and "text" in e["data"]
        ]
        assert site.keeper().show(workflow=workflow).state["reminders"] == told


@pytest.mark.parametrize("count", [1, 8])
def test_64_writers_lose_nothing_and_agree_on_one_order(count, tmp_path, tally):
    site = Site.made(tmp_path / "site")
    workflows = [
        site.do(["start", "dev", f"subject {number}"], f"first-{number}").state["id"]
        for number in range(count)
    ]
    sent, kills = history(site, workflows, f"{SEED}-{count}")
    events = site.events()
    try:
        check_found_once(sent, events)
        check_linearizable(sent, events)
        check_contiguous(events)
        check_states(site, events, workflows)
    except AssertionError as error:
        raise AssertionError(f"seed {SEED}") from error
    site.do(["set", "done=true"], "the-last")
    assert site.complaints() == []
    found = {event["id"] for event in events}
    tally(
        "writers",
        sent=len(sent),
        acknowledged=sum(1 for one in sent if one.acknowledged),
        found=sum(1 for one in sent if one.name in found),
        killed=kills,
    )
    assert os.path.exists(os.path.join(site.home, "ledger.ndjson"))

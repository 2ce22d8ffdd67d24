"""Promise 6: with many writers nothing is lost, nothing is there twice, and history has one order
that everybody who had an answer agrees with.

64 lanes of processes (a sample has 12), some of them real command lines and the others library
writers, send commands to one ledger at the same time; many are killed on the way, some ask again.
"""

import pytest

from holdfast import Keeper
from promises.writers import Lane, check_found_once, check_history, check_linearizable
from support.workshop import FULL, SEED, Workshop, many

pytestmark = pytest.mark.promise(6)

LANES = 64 if FULL else 12
COMMANDS = {"command": many(1, 12), "library": many(12, 80)}
"""So many commands a lane sends."""


@pytest.mark.parametrize("count", [1, 4])
def test_many_writers_lose_nothing_and_agree_on_one_order(count, tmp_path, tally):
    shop = Workshop(tmp_path / "repository")
    keeper = Keeper(shop.root)
    workflows = [keeper.start("dev", f"{number}.md").state["id"] for number in range(count)]
    begun = len(keeper.log())
    lanes = [
        Lane(
            str(tmp_path), shop.root, number, workflows[number % count], COMMANDS[by],
            f"{SEED}-{count}", by=by,
        )
        for number in range(LANES)
        for by in ["command" if number % 4 == 0 else "library"]
    ]  # fmt: skip
    for lane in lanes:
        lane.join()
    attempts = [attempt for lane in lanes for attempt in lane.attempts.values()]
    events = Keeper(shop.root).log()
    assert {one.code for one in attempts} == {None}
    check_found_once(attempts, events)
    check_history(events)
    check_linearizable(attempts, events[begun:])
    for workflow in workflows:
        last = [event for event in events if event["stream"] == workflow][-1]
        shown = Keeper(shop.root).show(workflow=workflow).state["context"]["n"]
        assert shown == last["data"]["values"]["n"]
    for number, workflow in enumerate(workflows):
        keeper.remind(f"the last {number}", workflow=workflow)
    assert [line for line in Keeper(shop.root).verify().lines if line["level"] == "error"] == []
    tally(
        "writers",
        processes=LANES,
        sent=len(attempts),
        acknowledged=sum(one.seqs is not None for one in attempts),
        found=len(events) - begun,
        killed=sum(lane.kills for lane in lanes),
    )

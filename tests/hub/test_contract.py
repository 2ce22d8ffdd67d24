"""What every hub does, shown for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.hub.contract import Forked, Held
from support.hubs import HUBS, an_event, everything, some
from support.postgres import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.hubs import Meeting


@pytest.fixture(params=list(HUBS))
def meeting(
    request: pytest.FixtureRequest, tmp_path: Path, not_shown: Callable[[str], None]
) -> Iterator[Meeting]:
    try:
        made = HUBS[request.param](tmp_path)
    except Unavailable as why:
        return not_shown(f"the contract over {request.param}: {why}")
    yield made
    made.first.close()
    made.second.close()


class TestEventsOfAHub:
    def test_an_empty_hub_has_nothing(self, meeting: Meeting) -> None:
        pulled = meeting.first.pull("")
        assert (pulled.events, pulled.known) == ([], {})

    def test_what_one_pushes_another_pulls_unchanged_and_in_order(self, meeting: Meeting) -> None:
        sent = some("a", 1, 5)
        assert meeting.first.push(sent) == []
        pulled = meeting.second.pull("")
        assert pulled.events == sent
        assert pulled.known == {"a": 5}

    def test_a_cursor_skips_what_was_pulled_and_nothing_else(self, meeting: Meeting) -> None:
        meeting.first.push(some("a", 1, 3))
        before = meeting.second.pull("")
        meeting.second.push(some("b", 1, 2))
        meeting.first.push(some("a", 4, 4))
        after = meeting.second.pull(before.cursor)
        got = {(event["replica"], event["n"]) for event in after.events}
        assert {("a", 4), ("b", 1), ("b", 2)} <= got
        assert after.known == {"a": 4, "b": 2}
        assert meeting.second.pull(after.cursor).events == []

    def test_events_of_a_replica_come_in_order_without_a_gap(self, meeting: Meeting) -> None:
        for n in range(1, 8):
            meeting.first.push(some("a", n, n))
            meeting.second.push(some("b", n, n))
        for replica in "ab":
            numbers = [e["n"] for e in meeting.first.pull("").events if e["replica"] == replica]
            assert numbers == list(range(1, 8))

    def test_pushing_again_changes_nothing(self, meeting: Meeting) -> None:
        meeting.first.push(some("a", 1, 3))
        assert meeting.first.push(some("a", 1, 5)) == []
        assert sorted(everything(meeting.second)) == [("a", n) for n in range(1, 6)]

    def test_pushing_nothing_is_allowed(self, meeting: Meeting) -> None:
        assert meeting.first.push([]) == []

    def test_events_of_several_replicas_can_be_pushed_at_once(self, meeting: Meeting) -> None:
        meeting.first.push([*some("a", 1, 2), *some("b", 1, 2)])
        assert sorted(everything(meeting.second)) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]

    def test_two_ledgers_under_one_name_are_found_out(self, meeting: Meeting) -> None:
        meeting.first.push(some("a", 1, 2))
        other = an_event("a", 2)
        other["cause"]["id"] = "another"
        with pytest.raises(Forked):
            meeting.second.push([other])
        assert everything(meeting.first)["a", 2]["cause"]["id"] == "a-2"

    def test_a_large_batch_arrives_whole(self, meeting: Meeting) -> None:
        sent = some("a", 1, 1_000)
        meeting.first.push(sent)
        assert meeting.second.pull("").events == sent


class TestClaims:
    """Claims that one makes after another. Over git, two that are made at once may both succeed."""

    def test_only_one_holds_a_stream(self, meeting: Meeting) -> None:
        assert meeting.first.claim("login", "one", 60) > 0
        with pytest.raises(Held, match="one"):
            meeting.second.claim("login", "two", 60)
        assert [lease.holder for lease in meeting.second.leases()] == ["one"]

    def test_a_lease_that_ran_out_can_be_taken_with_a_higher_epoch(self, meeting: Meeting) -> None:
        first = meeting.first.claim("login", "one", 60)
        meeting.pass_s(61)
        assert meeting.second.leases() == []
        assert meeting.second.claim("login", "two", 60) > first

    def test_renewing_keeps_the_epoch_and_the_lease(self, meeting: Meeting) -> None:
        epoch = meeting.first.claim("login", "one", 60)
        meeting.pass_s(40)
        assert meeting.first.claim("login", "one", 60, epoch) == epoch
        meeting.pass_s(40)
        with pytest.raises(Held):
            meeting.second.claim("login", "two", 60)

    def test_a_lease_that_ran_out_is_renewed_while_nobody_took_it(self, meeting: Meeting) -> None:
        epoch = meeting.first.claim("login", "one", 60)
        meeting.pass_s(61)
        assert meeting.first.claim("login", "one", 60, epoch) == epoch

    def test_a_lost_lease_cannot_be_renewed(self, meeting: Meeting) -> None:
        epoch = meeting.first.claim("login", "one", 60)
        meeting.pass_s(61)
        meeting.second.claim("login", "two", 60)
        with pytest.raises(Held):
            meeting.first.claim("login", "one", 60, epoch)

    def test_a_released_stream_is_free(self, meeting: Meeting) -> None:
        epoch = meeting.first.claim("login", "one", 60)
        meeting.first.release("login", epoch)
        assert meeting.second.claim("login", "two", 60) > epoch

    def test_releasing_a_lost_lease_does_nothing(self, meeting: Meeting) -> None:
        epoch = meeting.first.claim("login", "one", 60)
        meeting.pass_s(61)
        meeting.second.claim("login", "two", 60)
        meeting.first.release("login", epoch)
        assert [lease.holder for lease in meeting.first.leases()] == ["two"]

    def test_events_of_a_lost_lease_are_fenced_for_everybody(self, meeting: Meeting) -> None:
        if not meeting.first.is_fencing:
            pytest.skip(f"{meeting.first.kind} fences nothing: its claims are advisory")
        epoch = meeting.first.claim("login", "one", 60)
        assert meeting.first.push([an_event("a", 1, epoch=epoch)]) == []
        meeting.pass_s(61)
        meeting.second.claim("login", "two", 60)
        late = [an_event("a", 2, epoch=epoch), an_event("a", 3, stream="other")]
        assert meeting.first.push(late) == [("a", 2)]
        assert meeting.first.push(late) == [("a", 2)], "a retry gets the same answer"
        events = everything(meeting.second)
        assert [events["a", n].get("fenced", False) for n in (1, 2, 3)] == [False, True, False]

    def test_only_a_later_lease_fences(self, meeting: Meeting) -> None:
        """A hub that was emptied gives epochs again from the beginning, or gave none yet."""
        meeting.first.claim("login", "one", 60)
        assert meeting.first.push([an_event("a", 1, epoch=10**15)]) == []
        assert meeting.first.push([an_event("a", 2, stream="other", epoch=7)]) == []

    def test_events_without_a_lease_are_never_fenced(self, meeting: Meeting) -> None:
        meeting.first.claim("login", "one", 60)
        assert meeting.second.push([an_event("b", 1)]) == []

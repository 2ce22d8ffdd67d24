"""The hub in PostgreSQL while servers are killed, stopped and restarted, and networks fail.

Acknowledged means stored: what ``push`` returned from is there, once, whatever happens. A call that
gets no answer ends within its bound, and says so.
"""

from __future__ import annotations

import random
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from holdfast.errors import Fault
from holdfast.hub.postgres import Postgres
from support.hubs import an_event, some
from support.postgres import Server, Unavailable, shared_server
from support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.types import SharedEvent

BOUND_S = 1.0
"""The time for an answer, where none comes."""
SOON_S = 3.0
"""What a call with that bound may take, on a busy machine."""
STEP = 61
"""A connection is cut after every so many bytes."""


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server | str]:
    try:
        server = Server()
    except Unavailable as why:
        yield str(why)
        return
    yield server
    server.close()


@pytest.fixture
def server(own_server: Server | str, not_shown: Callable[[str], None]) -> Server:
    """A server that the test may kill."""
    if isinstance(own_server, str):
        return not_shown(f"faults of PostgreSQL: {own_server}")
    return own_server


@pytest.fixture
def proxy(not_shown: Callable[[str], None]) -> Iterator[Proxy]:
    """A network of the test's own, to the server of the run."""
    try:
        target = shared_server().folder / ".s.PGSQL.5432"
    except Unavailable as why:
        not_shown(f"faults of PostgreSQL: {why}")
        raise
    made = Proxy(target)
    yield made
    made.close()


@pytest.fixture
def way_in() -> Iterator[Callable[..., Postgres]]:
    """``way_in(dsn)`` is a hub that is closed after the test."""
    made: list[Postgres] = []

    def open_it(where: str, **bounds: Any) -> Postgres:
        made.append(Postgres(where, **bounds))
        return made[-1]

    yield open_it
    for hub in made:
        hub.close()


@pytest.fixture
def through(proxy: Proxy, way_in: Callable[..., Postgres]) -> Callable[..., Postgres]:
    """``through()`` is a hub behind the proxy, in a schema with tables."""
    direct = shared_server().new_schema()
    way_in(direct).release("login", 1)
    shown = direct.replace(f"host={shared_server().folder}", f"host=127.0.0.1&port={proxy.port}")
    return lambda **bounds: way_in(shown, connect_s=2, **bounds)


def new_schema(server: Server) -> str:
    name = f"t_{random.getrandbits(48):012x}"
    with psycopg.connect(server.dsn()) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return server.dsn(name)


def stored(hub: Postgres) -> list[tuple[str, int]]:
    events: list[SharedEvent] = []
    cursor, is_all = "", False
    while not is_all:
        pulled = hub.pull(cursor)
        events += pulled.events
        cursor, is_all = pulled.cursor, pulled.is_all
    return [(event["replica"], event["n"]) for event in events]


def expected(replica: str, last: int) -> list[tuple[str, int]]:
    return [(replica, n) for n in range(1, last + 1)]


class TestServers:
    def test_what_was_acknowledged_survives_kills_and_nothing_is_doubled(
        self, server: Server, way_in: Callable[..., Postgres], tally: Callable[..., None]
    ) -> None:
        dsn = new_schema(server)
        acknowledged = dict.fromkeys("abc", 0)
        failures = []
        is_over = threading.Event()

        def work(replica: str) -> None:
            hub = way_in(dsn, connect_s=2, answer_s=10)
            while not is_over.is_set():
                last = acknowledged[replica]
                try:
                    hub.push(some(replica, last + 1, last + 3))
                except Fault as fault:
                    failures.append(fault.code)
                else:
                    acknowledged[replica] = last + 3

        workers = [threading.Thread(target=work, args=(name,)) for name in acknowledged]
        for worker in workers:
            worker.start()
        for _ in range(3):
            before = sum(acknowledged.values())
            due = monotonic() + 30
            while sum(acknowledged.values()) < before + 30 and monotonic() < due:
                is_over.wait(0.001)
            server.kill()
            server.start()
        is_over.set()
        for worker in workers:
            worker.join(30)
        got = stored(way_in(dsn))
        assert len(got) == len(set(got))
        for replica, last in acknowledged.items():
            numbers = [n for name, n in got if name == replica]
            assert numbers == list(range(1, len(numbers) + 1))
            assert last <= len(numbers) <= last + 3, "at most the unanswered push is there as well"
        assert set(failures) == {"hub_unreachable"}
        tally("PostgreSQL killed", kills=3, events=len(got), unanswered=len(failures), lost=0)

    def test_a_stopped_server_is_given_up_on_within_the_bound(
        self, server: Server, way_in: Callable[..., Postgres]
    ) -> None:
        dsn = new_schema(server)
        hub = way_in(dsn, connect_s=2, answer_s=BOUND_S)
        hub.push(some("a", 1, 1))
        server.pause()
        try:
            for call in (lambda: hub.push(some("a", 2, 2)), lambda: hub.pull("")):
                begun = monotonic()
                with pytest.raises(Fault, match=r"no answer within 1 s|timeout") as caught:
                    call()
                assert caught.value.code == "hub_unreachable"
                assert monotonic() - begun < SOON_S
        finally:
            server.resume()
        assert hub.push(some("a", 1, 3)) == []
        assert stored(hub) == expected("a", 3)

    def test_a_restart_between_two_calls_goes_unnoticed(
        self, server: Server, way_in: Callable[..., Postgres]
    ) -> None:
        hub = way_in(new_schema(server))
        hub.push(some("a", 1, 1))
        server.restart()
        assert hub.push(some("a", 2, 2)) == []
        epoch = hub.claim("login", "me", 60)
        server.restart()
        assert hub.claim("login", "me", 60, epoch) == epoch
        assert stored(hub) == expected("a", 2)

    def test_a_server_that_is_not_there_is_said(
        self, server: Server, way_in: Callable[..., Postgres]
    ) -> None:
        hub = way_in(new_schema(server))
        server.stop()
        try:
            for _ in range(2):
                with pytest.raises(Fault, match="what is recorded here goes there later") as caught:
                    hub.push(some("a", 1, 1))
                assert caught.value.code == "hub_unreachable"
        finally:
            server.start()
        assert hub.push(some("a", 1, 1)) == []


class TestNetworks:
    def test_cut_at_any_byte_of_a_push_nothing_is_lost_or_doubled(
        self, proxy: Proxy, through: Callable[..., Postgres], tally: Callable[..., None]
    ) -> None:
        """Those of the answer include the moment after the commit, when nobody heard of it."""
        hub = through()
        hub.push(some("z", 1, 1))
        sent, answered = len(proxy.requests[-1]), proxy.answered
        hub.close()
        points = [("cut_after_request_bytes", at) for at in range(0, sent + STEP, STEP)]
        points += [("cut_after_answer_bytes", at) for at in range(0, answered + STEP, STEP)]
        direct = through()
        direct.pull("")
        cuts, failed, unknown, last = 0, 0, 0, 0
        for where, at in points:
            hub = through()
            setattr(proxy, where, at)
            last += 1
            try:
                hub.push([an_event("a", last)])
            except Fault as fault:
                assert fault.code == "hub_unreachable"
                failed += 1
                cuts += getattr(proxy, where) is None
                setattr(proxy, where, None)
                unknown += direct.pull("").known.get("a", 0) == last
                assert hub.push([an_event("a", last)]) == []
            else:
                cuts += getattr(proxy, where) is None
            setattr(proxy, where, None)
            hub.close()
        assert stored(hub) == [*expected("z", 1), *expected("a", last)]
        assert cuts >= len(points) - 2
        assert failed > unknown > 0, "some were stored, though nobody heard of it"
        tally("PostgreSQL's connection cut", points=cuts, unknown=unknown, lost=0, doubled=0)

    def test_a_connection_that_breaks_later_is_made_again_at_once(
        self, proxy: Proxy, through: Callable[..., Postgres]
    ) -> None:
        hub = through()
        hub.push(some("a", 1, 1))
        sent, answered = len(proxy.requests[-1]), proxy.answered
        for number, (limit, at) in enumerate(
            [("cut_after_request_bytes", sent + 40), ("cut_after_answer_bytes", answered + 20)], 2
        ):
            setattr(proxy, limit, at)
            assert hub.push(some("a", number, number)) == []
        assert stored(hub) == expected("a", 3)

    def test_a_request_that_arrives_again_later_changes_nothing(
        self, proxy: Proxy, through: Callable[..., Postgres]
    ) -> None:
        hub = through()
        epoch = hub.claim("login", "one", 0)
        hub.close()
        hub.push([an_event("a", 1, epoch=epoch), an_event("a", 2)])
        hub.close()
        request = bytes(proxy.requests[-1])
        taken = hub.claim("login", "two", 60)
        assert hub.push([an_event("a", 3, epoch=epoch)]) == [("a", 3)]
        assert b"ERROR" not in proxy.deliver_again(request)
        assert stored(hub) == expected("a", 3)
        assert hub.pull("").events[0].get("fenced") is None, "it was there before the claim"
        assert [(one.holder, one.epoch) for one in hub.leases()] == [("two", taken)]

    def test_an_answer_that_comes_late_is_an_answer(
        self, proxy: Proxy, through: Callable[..., Postgres]
    ) -> None:
        hub = through()
        hub.pull("")
        proxy.hold_answers()
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(hub.push(some("a", 1, 2))))
        thread.start()
        due = monotonic() + 30
        while b"push(" not in proxy.requests[-1] and monotonic() < due:
            thread.join(0.002)
        assert got == []
        proxy.let_go()
        thread.join(30)
        assert got == [[]]
        assert stored(hub) == expected("a", 2)

    def test_a_network_that_swallows_everything_ends_in_time(
        self, proxy: Proxy, through: Callable[..., Postgres]
    ) -> None:
        hub = through(answer_s=BOUND_S / 2)
        hub.push(some("a", 1, 1))
        proxy.is_silent = True
        for why in ("no answer within 0.5 s", "timeout"):
            begun = monotonic()
            with pytest.raises(Fault, match=why) as caught:
                hub.push(some("a", 2, 2))
            assert caught.value.code == "hub_unreachable"
            assert monotonic() - begun < SOON_S
        proxy.is_silent = False
        assert hub.push(some("a", 2, 2)) == []
        assert stored(hub) == expected("a", 2)

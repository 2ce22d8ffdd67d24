"""What the hub in PostgreSQL does beside the contract, on a real server."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from holdfast import Keeper, Sharing
from holdfast.errors import Fault, Refused
from holdfast.hub import postgres
from holdfast.hub.contract import Held
from holdfast.hub.postgres import Postgres
from support.git_template import make_repository
from support.hubs import an_event, everything, some
from support.postgres import Unavailable, shared_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.types import SharedEvent
    from holdfast.hub.contract import Hub

    Way = Callable[[str], "Postgres"]

ROOT = Path(__file__).resolve().parents[2]
RIGHT, WRONG = "r1ght-w0rd", "wr0ng-w0rd"


@pytest.fixture
def dsn(not_shown: Callable[[str], None]) -> str:
    try:
        return shared_server().new_schema()
    except Unavailable as why:
        return not_shown(f"the hub in PostgreSQL: {why}")


@pytest.fixture
def hubs(dsn: str) -> Iterator[tuple[Postgres, Postgres]]:
    """Two ways in, to tables that are there."""
    first, second = Postgres(dsn), Postgres(dsn)
    first.claim("made", "nobody", 0)
    yield first, second
    first.close()
    second.close()


@pytest.fixture
def way_in() -> Iterator[Way]:
    """``way_in(dsn)`` is a hub that is closed after the test."""
    made: list[Postgres] = []

    def open_it(where: str) -> Postgres:
        made.append(Postgres(where))
        return made[-1]

    yield open_it
    for hub in made:
        hub.close()


@pytest.fixture
def by_hand(dsn: str) -> Iterator[Any]:
    """A connection whose transactions a test begins and ends."""
    with psycopg.connect(dsn) as connection:
        yield connection


def push_by_hand(connection: Any, events: list[SharedEvent]) -> list[Any]:
    """Push in an open transaction, which the caller ends."""
    hub = Postgres.__new__(Postgres)
    sent: list[Any] = []
    hub._run = lambda query, values: sent.append((query, values())) or []  # type: ignore[method-assign]
    hub.push(events)
    rows: list[Any] = connection.execute(*sent[0]).fetchall()
    return rows


class InBackground:
    """A call in a thread, with its result or error."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._result = call()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
            self._error = error

    def result(self) -> Any:
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result


def await_lock(dsn: str) -> None:
    """Wait until another connection of this schema waits for a lock."""
    schema = dsn.rpartition("%3D")[2]
    query = """SELECT count(*) FROM pg_stat_activity AS a JOIN pg_locks AS l USING (pid)
        WHERE NOT l.granted AND a.pid = ANY (SELECT l.pid FROM pg_locks AS l
          JOIN pg_class AS c ON c.oid = l.relation
          WHERE c.relnamespace = to_regnamespace(%s)) OR NOT l.granted AND l.locktype = 'advisory'
          AND l.classid = (to_regclass(%s))::oid"""
    due = monotonic() + 30
    with psycopg.connect(dsn, autocommit=True) as connection:
        while monotonic() < due:
            row = connection.execute(query, (schema, f"{schema}.events")).fetchone()
            if row[0]:
                return
            sleep(0.005)
    raise AssertionError("nobody waits")


def numbers(events: list[SharedEvent]) -> list[tuple[str, int]]:
    return [(event["replica"], event["n"]) for event in events]


class TestCursor:
    def test_a_transaction_that_ends_late_is_not_skipped(
        self, hubs: tuple[Hub, Hub], by_hand: Any
    ) -> None:
        first, second = hubs
        push_by_hand(by_hand, some("late", 1, 2))
        first.push(some("b", 1, 3))
        early = second.pull("")
        assert numbers(early.events) == [("b", 1), ("b", 2), ("b", 3)]
        again = second.pull(early.cursor)
        assert (again.events, again.cursor) == ([], early.cursor), "it does not go round"
        first.push(some("b", 4, 4))
        middle = second.pull(early.cursor)
        by_hand.commit()
        late = second.pull(middle.cursor)
        assert numbers(middle.events) == [("b", 4)]
        assert numbers(late.events) == [("late", 1), ("late", 2)]
        assert second.pull(late.cursor).events == []

    def test_a_long_transaction_of_somebody_else_holds_nothing_back(
        self, hubs: tuple[Hub, Hub], by_hand: Any
    ) -> None:
        by_hand.execute("SELECT pg_current_xact_id()")
        hubs[0].push(some("a", 1, 3))
        assert numbers(hubs[1].pull("").events) == [("a", 1), ("a", 2), ("a", 3)]

    @pytest.mark.parametrize("seed", range(4))
    def test_whatever_order_transactions_end_in_each_event_comes_once(
        self, hubs: tuple[Postgres, Hub], dsn: str, seed: int
    ) -> None:
        rng = random.Random(seed)
        reader = hubs[0]
        sent: dict[str, int] = {}
        got: list[tuple[str, int]] = []
        cursor = ""
        with psycopg.connect(dsn) as a, psycopg.connect(dsn) as b, psycopg.connect(dsn) as c:
            for _ in range(60):
                name = rng.choice("abc")
                connection = {"a": a, "b": b, "c": c}[name]
                match rng.choice(["push", "push", "end", "pull"]):
                    case "push":
                        count = rng.randint(1, 4)
                        last = sent.get(name, 0)
                        push_by_hand(connection, some(name, last + 1, last + count))
                        sent[name] = last + count
                    case "end":
                        connection.commit()
                    case "pull":
                        pulled = reader.pull(cursor, most=rng.randint(1, 5))
                        got += numbers(pulled.events)
                        cursor = pulled.cursor
        is_all = False
        while not is_all:
            pulled = reader.pull(cursor, most=3)
            got += numbers(pulled.events)
            cursor, is_all = pulled.cursor, pulled.is_all
        assert len(got) == len(set(got)), "nothing comes twice"
        for name, last in sent.items():
            assert [n for replica, n in got if replica == name] == list(range(1, last + 1))

    def test_two_that_push_events_of_one_replica_keep_their_order(
        self, hubs: tuple[Postgres, Postgres], by_hand: Any, dsn: str
    ) -> None:
        """A transaction that waits for another must not have an earlier number than that."""
        by_hand.execute(
            "SELECT pg_advisory_xact_lock('events'::regclass::oid::integer, hashtext('b'))"
        )
        second = InBackground(lambda: hubs[0].push([an_event("a", 1), an_event("b", 2)]))
        await_lock(dsn)
        push_by_hand(by_hand, some("b", 1, 1))
        by_hand.commit()
        assert second.result() == []
        events, cursor, is_all = [], "", False
        while not is_all:
            pulled = hubs[1].pull(cursor, most=1)
            events += pulled.events
            cursor, is_all = pulled.cursor, pulled.is_all
        assert [n for replica, n in numbers(events) if replica == "b"] == [1, 2]

    def test_large_events_come_in_several_answers(self, hubs: tuple[Hub, Hub]) -> None:
        large = [an_event("a", n) for n in range(1, 6)]
        for event in large:
            event["cause"]["args"] = {"text": "x" * (postgres.PULL_BYTES // 2)}
        hubs[0].push(large)
        counts, cursor, is_all = [], "", False
        while not is_all:
            pulled = hubs[1].pull(cursor)
            counts.append(len(pulled.events))
            cursor, is_all = pulled.cursor, pulled.is_all
        assert sum(counts) == 5
        assert max(counts) < 5

    @pytest.mark.parametrize(
        "cursor", ["", "what?", "7", '["another-server","9:9:",null,null,"",0]']
    )
    def test_a_cursor_of_another_server_begins_anew(
        self, hubs: tuple[Hub, Hub], cursor: str
    ) -> None:
        hubs[0].push(some("a", 1, 2))
        assert numbers(hubs[1].pull(cursor).events) == [("a", 1), ("a", 2)]

    def test_a_damaged_event_is_left_out_and_said(
        self, hubs: tuple[Hub, Hub], by_hand: Any
    ) -> None:
        hubs[0].push([*some("a", 1, 2), *some("b", 1, 1)])
        by_hand.execute("UPDATE events SET event = E'{\\n[' WHERE replica = 'a' AND n = 2")
        by_hand.commit()
        pulled = hubs[1].pull("")
        assert numbers(pulled.events) == [("a", 1), ("b", 1)]
        assert len(pulled.flaws) == 1


class TestEpochs:
    @pytest.fixture
    def lost(self, hubs: tuple[Hub, Hub], by_hand: Any) -> int:
        """Return the epoch of a lease that ran out."""
        epoch = hubs[0].claim("login", "one", 60)
        by_hand.execute("UPDATE leases SET until = until - interval '61 s'")
        by_hand.commit()
        return epoch

    def test_a_claim_waits_for_a_push_that_came_first(
        self, hubs: tuple[Hub, Hub], by_hand: Any, dsn: str, lost: int
    ) -> None:
        assert push_by_hand(by_hand, [an_event("a", 1, epoch=lost)]) == []
        claim = InBackground(lambda: hubs[1].claim("login", "two", 60))
        await_lock(dsn)
        by_hand.commit()
        assert claim.result() > lost
        assert not everything(hubs[1])["a", 1].get("fenced"), "it was there before the claim"

    def test_a_push_waits_for_a_claim_that_came_first_and_is_fenced(
        self, hubs: tuple[Hub, Hub], by_hand: Any, dsn: str, lost: int
    ) -> None:
        by_hand.execute("SELECT epoch FROM claim('login', 'two', 60, 0)")
        push = InBackground(lambda: hubs[0].push([an_event("a", 1, epoch=lost)]))
        await_lock(dsn)
        by_hand.commit()
        assert push.result() == [("a", 1)]
        assert everything(hubs[1])["a", 1]["fenced"]

    def test_a_claim_waits_for_another_that_came_first(
        self, hubs: tuple[Hub, Hub], by_hand: Any, dsn: str, lost: int
    ) -> None:
        by_hand.execute("SELECT epoch FROM claim('login', 'two', 60, 0)")
        calls = [
            InBackground(lambda: hubs[0].claim("login", "three", 60)),
            InBackground(lambda: hubs[1].claim("login", "one", 60, lost)),
        ]
        await_lock(dsn)
        by_hand.commit()
        for call in calls:
            with pytest.raises(Held, match="two"):
                call.result()

    @pytest.mark.usefixtures("hubs")
    def test_one_of_many_gets_a_lease(self, dsn: str) -> None:
        ways = [Postgres(dsn) for _ in range(6)]
        calls = [
            InBackground(lambda hub=hub, name=str(number): hub.claim("login", name, 60))
            for number, hub in enumerate(ways)
        ]
        outcomes = []
        for call in calls:
            try:
                outcomes.append(call.result())
            except Held:
                outcomes.append(0)
        assert sum(map(bool, outcomes)) == 1
        for hub in ways:
            hub.close()

    def test_a_hub_that_lost_its_leases_gives_no_epoch_twice(
        self, hubs: tuple[Hub, Hub], by_hand: Any
    ) -> None:
        before = hubs[0].claim("login", "one", 60)
        by_hand.execute("DELETE FROM leases")
        by_hand.commit()
        assert hubs[1].push([an_event("a", 1, epoch=before)]) == [], "nobody else took it"
        assert hubs[1].claim("login", "two", 60) > before
        assert hubs[0].push([an_event("a", 2, epoch=before)]) == [("a", 2)]

    def test_what_was_fenced_elsewhere_stays_fenced(self, hubs: tuple[Hub, Hub]) -> None:
        assert hubs[0].push([an_event("a", 1, fenced=True)]) == [("a", 1)]
        assert everything(hubs[1])["a", 1]["fenced"]


class TestNumbers:
    def test_a_gap_is_refused_and_nothing_stored(self, hubs: tuple[Hub, Hub]) -> None:
        with pytest.raises(Fault, match="a gap before event 3 of a") as caught:
            hubs[0].push([*some("b", 1, 1), *some("a", 3, 4)])
        assert caught.value.code == "hub_gap"
        with pytest.raises(Fault, match="a gap before event 3 of b"):
            hubs[0].push([an_event("b", 1), an_event("b", 3)])
        assert everything(hubs[1]) == {}

    def test_two_that_push_the_same_at_once_store_it_once(
        self, hubs: tuple[Hub, Hub], by_hand: Any, dsn: str
    ) -> None:
        push_by_hand(by_hand, some("a", 1, 3))
        other = InBackground(lambda: hubs[0].push(some("a", 1, 5)))
        await_lock(dsn)
        by_hand.commit()
        assert other.result() == []
        assert numbers(hubs[1].pull("").events) == [("a", n) for n in range(1, 6)]

    def test_an_id_that_a_replica_used_before_is_refused(self, hubs: tuple[Hub, Hub]) -> None:
        hubs[0].push(some("a", 1, 1))
        doubled = an_event("a", 2)
        doubled["cause"]["id"] = "a-1"
        with pytest.raises(Fault) as caught:
            hubs[0].push([doubled])
        assert caught.value.code == "hub_doubled"

    def test_every_character_arrives(self, hubs: tuple[Hub, Hub]) -> None:
        odd = an_event("a", 1, stream='x"\\\x00 {},ü')
        odd["cause"]["args"] = {"text": "\x00\x7f\u2028 NULL \\N \U0001f600"}
        hubs[0].push([odd])
        assert everything(hubs[1])["a", 1] == odd
        hubs[0].claim(odd["stream"], 'm"e\x00', 60)
        assert [(one.stream, one.holder) for one in hubs[1].leases()] == [
            (odd["stream"], 'm"e\x00')
        ]


CLAIM_IN_A_PROCESS = """
import sys
from holdfast.hub.postgres import Postgres
hub = Postgres(sys.argv[1])
hub.pull("")
print("ready", flush=True)
sys.stdin.readline()
print(hub.claim(sys.argv[2], "me", 60) > 0)
"""


class TestTables:
    def test_a_look_makes_none(self, way_in: Way, dsn: str) -> None:
        hub = way_in(dsn)
        assert (hub.pull("").events, hub.leases()) == ([], [])
        assert tables(dsn) == []
        hub.push(some("a", 1, 1))
        assert tables(dsn) == ["events", "leases", "schema_version"]
        assert numbers(hub.pull("").events) == [("a", 1)]

    def test_they_are_made_once(self, way_in: Way, dsn: str) -> None:
        for n in (1, 2):
            hub = way_in(dsn)
            hub.push(some("a", n, n))
            hub.close()
        with psycopg.connect(dsn) as connection:
            rows = connection.execute("SELECT version FROM schema_version").fetchall()
        assert rows == [(postgres.VERSION,)]

    def test_processes_that_make_them_at_once_make_them_once(self, dsn: str) -> None:
        words = [sys.executable, "-c", CLAIM_IN_A_PROCESS, dsn]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        runs = [
            subprocess.Popen([*words, str(number)], env=environment, **pipes) for number in range(3)
        ]
        for run in runs:
            assert run.stdout.readline() == "ready\n"
        for run in runs:
            run.stdin.write("go\n")
            run.stdin.flush()
        assert [run.communicate(timeout=60)[0] for run in runs] == ["True\n"] * 3

    def test_those_of_a_newer_version_are_left_alone(
        self, way_in: Way, dsn: str, hubs: tuple[Hub, Hub]
    ) -> None:
        hubs[0].push(some("a", 1, 1))
        with psycopg.connect(dsn) as connection:
            connection.execute("UPDATE schema_version SET version = version + 1")
        late = way_in(dsn)
        for call in (lambda: late.pull(""), lambda: late.push(some("a", 2, 2)), late.leases):
            with pytest.raises(Fault, match="a newer Holdfast") as caught:
                call()
            assert "install the newer Holdfast" in caught.value.hint
        assert len(numbers(hubs[0].pull("").events)) == 1

    @pytest.mark.parametrize(
        "foreign",
        ["CREATE TABLE events (id int)", "CREATE TABLE schema_version (installed_rank int)"],
    )
    def test_a_schema_of_somebody_else_is_refused(
        self, way_in: Way, dsn: str, foreign: str
    ) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute(foreign)
        before = tables(dsn)
        hub = way_in(dsn)
        with pytest.raises(Refused, match="in use by something else") as caught:
            hub.push(some("a", 1, 1))
        assert "options=-csearch_path" in caught.value.hint
        assert tables(dsn) == before

    def test_a_schema_that_does_not_exist_is_named_as_the_reason(
        self, way_in: Way, dsn: str
    ) -> None:
        hub = way_in(dsn.replace("%3Dt_", "%3Dno_"))
        for use in (hub.reach, lambda: hub.pull(""), lambda: hub.push(some("a", 1, 1))):
            with pytest.raises(Refused, match="does not exist") as caught:
                use()
            assert "CREATE SCHEMA" in caught.value.hint

    def test_a_schema_that_is_gone_fails_the_exchange_and_status_says_so(
        self, dsn: str, tmp_path: Path
    ) -> None:
        make_repository(tmp_path / "work")
        sharing = Sharing(Keeper(str(tmp_path / "work")))
        with pytest.raises(Refused, match="does not exist"):
            sharing.plan("postgres", dsn.replace("%3Dt_", "%3Dno_"), "here")
        sharing.add(sharing.plan("postgres", dsn, "here"))
        with psycopg.connect(dsn) as connection:
            connection.execute(f"DROP SCHEMA {dsn.rpartition('%3D')[2]} CASCADE")
        with pytest.raises(Refused, match="does not exist"):
            sharing.sync()
        assert "does not exist" in sharing.status()["last"]["failed"]

    def test_two_repositories_in_one_database_do_not_meet(self, way_in: Way, dsn: str) -> None:
        other = shared_server().new_schema()
        hub = way_in(dsn)
        hub.push(some("a", 1, 1))
        # The second schema comes first on a path that ends in the first one.
        both = f"{other},{dsn.rpartition('%3D')[2]}"
        late = way_in(both)
        assert late.pull("").events == []
        late.push(some("b", 1, 1))
        assert numbers(hub.pull("").events) == [("a", 1)]

    def test_after_a_restore_into_another_server_nothing_is_hidden(
        self, way_in: Way, dsn: str, hubs: tuple[Hub, Hub]
    ) -> None:
        hubs[0].push(some("a", 1, 3))
        cursor = hubs[1].pull("").cursor
        with psycopg.connect(dsn) as connection:
            connection.execute("UPDATE schema_version SET cluster = 'another'")
            connection.execute("UPDATE events SET xid = '123456789012'")
        restored = way_in(dsn)
        assert numbers(restored.pull("").events) == [("a", 1), ("a", 2), ("a", 3)]
        restored.push(some("a", 4, 4))
        assert ("a", 4) in numbers(restored.pull(cursor).events)


def tables(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"
        )
        return [row[0] for row in rows]


def documented_sql(heading: str) -> str:
    """Return the SQL that the documentation gives under a heading."""
    page = (ROOT / "docs" / "many-machines.md").read_text("utf-8")
    section = page.partition(f"\n### {heading}\n")[2].partition("\n### ")[0]
    blocks = re.findall(r"^```sql\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert blocks, heading
    return "\n".join(blocks)


class TestRoles:
    @pytest.fixture
    def roles(self, way_in: Way, dsn: str) -> dict[str, str]:
        """The DSN of a schema's owner, and of members of the documented roles."""
        schema = dsn.rpartition("%3D")[2]
        names = {
            name: f"{name}_{schema}" for name in ("owner", "holdfast_worker", "holdfast_reader")
        }
        members = {"ada": names["holdfast_worker"], "auditor": names["holdfast_reader"]}
        users = {name: f"{name}_{schema}" for name in members}
        server = shared_server()
        owner = server.dsn(schema, user=names["owner"])
        with psycopg.connect(dsn, autocommit=True) as connection:
            for name in (names["owner"], *users.values()):
                connection.execute(f"CREATE ROLE {name} LOGIN")
            connection.execute(f"ALTER SCHEMA {schema} OWNER TO {names['owner']}")
            hub = way_in(owner)
            hub.push(some("a", 1, 1))
            hub.close()
            sql = documented_sql("Roles").replace("shop", schema)
            for name in ("holdfast_worker", "holdfast_reader"):
                sql = sql.replace(name, names[name])
            for name, user in users.items():
                sql = re.sub(rf"\b{name}\b", user, sql)
            connection.execute(sql)
        dsns = {name: server.dsn(schema, user=user) for name, user in users.items()}
        return {"owner": owner, **dsns}

    def test_a_worker_can_all_that_a_hub_does(self, way_in: Way, roles: dict[str, str]) -> None:
        hub = way_in(roles["ada"])
        epoch = hub.claim("login", "ada", 60)
        assert hub.push([an_event("b", 1, epoch=epoch)]) == []
        assert [lease.holder for lease in hub.leases()] == ["ada"]
        hub.release("login", epoch)
        assert len(hub.pull("").events) == 2

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO events VALUES ('x', 1, 's', 'i', false, '{}')",
            "UPDATE events SET fenced = false",
            "DELETE FROM events",
            "UPDATE leases SET epoch = 9",
            "UPDATE schema_version SET version = 0",
            "TRUNCATE events",
            "CREATE TABLE mine (id int)",
        ],
    )
    def test_a_worker_can_do_nothing_past_the_checks(
        self, roles: dict[str, str], statement: str
    ) -> None:
        with (
            psycopg.connect(roles["ada"]) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement)

    def test_a_reader_reads_alone(self, way_in: Way, roles: dict[str, str]) -> None:
        hub = way_in(roles["auditor"])
        assert numbers(hub.pull("").events) == [("a", 1)]
        assert hub.leases() == []
        for call in (lambda: hub.push(some("b", 1, 1)), lambda: hub.claim("login", "me", 60)):
            with pytest.raises(Fault, match="lacks a right") as caught:
                call()
            assert caught.value.code == "hub_denied"

    @pytest.mark.usefixtures("roles")
    def test_who_has_no_right_at_all_is_told_so(self, way_in: Way, dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            schema = dsn.rpartition("%3D")[2]
            connection.execute(f"CREATE ROLE guest_{schema} LOGIN")
        hub = way_in(shared_server().dsn(schema, user=f"guest_{schema}"))
        with pytest.raises(Refused, match="or this role may not use it"):
            hub.push(some("b", 1, 1))


class TestSecrets:
    @pytest.mark.parametrize(
        "where",
        [
            f"postgresql://ada:{WRONG}@db.example/holdfast?sslmode=require",
            f"postgresql://db.example/holdfast?sslmode=require&password={WRONG}",
            f"host=db.example dbname=holdfast sslmode=require password={WRONG}",
            f"host=db.example sslmode=require sslpassword={WRONG}",
            f"postgresql://ada:{WRONG}@",
            f"postgresql://ada:one@{WRONG}@db.example/holdfast?sslmode=require",
            f"postgresql://ada:one/{WRONG}@db.example/holdfast?sslmode=disable",
            f"postgresql://{WRONG}:1/two@127.0.0.1/holdfast",
            f"postgresql://ada:{WRONG}@[db.example/holdfast",
            f"password={WRONG} host",
            f"password='{WRONG}",
        ],
    )
    def test_a_dsn_with_a_secret_is_refused_and_not_repeated(self, where: str) -> None:
        with pytest.raises(Refused) as caught:
            Postgres(where)
        assert WRONG not in f"{caught.value.message} {caught.value.hint}"

    def test_the_way_out_is_a_line_of_the_password_file(self) -> None:
        with pytest.raises(Refused) as caught:
            Postgres(f"postgresql://ada:{WRONG}@db.example:6432/work?sslmode=require")
        assert "db.example:6432:work:ada:PASSWORD in ~/.pgpass" in caught.value.hint

    def test_a_password_is_nowhere_in_what_is_stored_or_said(
        self, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        schema = dsn.rpartition("%3D")[2]
        user = f"asked_{schema}"
        with psycopg.connect(dsn) as connection:
            connection.execute(f"CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{RIGHT}'")
        where = shared_server().dsn(schema, user=user)
        make_repository(tmp_path / "work")
        keeper = Keeper(str(tmp_path / "work"))
        sharing = Sharing(keeper)
        keeper.start("dev", "a.md", tasks=["one"])
        monkeypatch.setenv("PGPASSWORD", RIGHT)
        sharing.add(sharing.plan("postgres", where, "here"))
        monkeypatch.setenv("PGPASSWORD", WRONG)
        with pytest.raises(Fault, match="cannot be reached") as caught:
            sharing.sync()
        assert "password authentication failed" in caught.value.message
        texts = [f"{caught.value.message} {caught.value.hint} {sharing.status()}"]
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        texts += [path.read_bytes().decode("latin-1") for path in files]
        texts.append(shared_server().log)
        assert any(path.name == "hub.json" for path in files)
        assert any(where in text for text in texts), "it would be there if it were anywhere"
        assert not [text[:80] for text in texts if RIGHT in text or WRONG in text]

    def test_without_the_driver_the_extra_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(Fault, match="psycopg, is not installed") as caught:
            Postgres("postgresql:///holdfast")
        assert caught.value.hint == "pip install 'holdfast[postgres]'"


class TestEncryption:
    @pytest.mark.parametrize(
        "where",
        [
            "postgresql://db.example/holdfast",
            "postgresql://db.example/holdfast?sslmode=prefer",
            "postgresql://db.example/holdfast?sslmode=allow",
            "postgresql://localhost,db.example/holdfast",
            "postgresql://127.db.example/holdfast",
            "host=localhost hostaddr=192.0.2.7 dbname=holdfast",
            "service=work",
        ],
    )
    def test_plain_text_over_a_network_is_refused_unless_asked_for(self, where: str) -> None:
        with pytest.raises(Refused, match="does not ask for TLS") as caught:
            Postgres(where)
        assert "sslmode=verify-full" in caught.value.hint

    @pytest.mark.parametrize(
        "where",
        [
            "postgresql:///holdfast",
            "postgresql://localhost/holdfast",
            "postgresql://127.0.0.1:6432/holdfast",
            "postgresql:///holdfast?host=/run/postgresql",
            "postgresql://db.example/holdfast?sslmode=require",
            "postgresql://db.example/holdfast?sslmode=verify-ca",
            "postgresql://db.example/holdfast?sslmode=verify-full",
            "postgresql://db.example/holdfast?sslmode=disable",
            "service=work sslmode=verify-full",
        ],
    )
    def test_this_machine_and_tls_and_an_explicit_word_are_fine(self, where: str) -> None:
        assert Postgres(where).where == where

    def test_the_environment_counts_like_the_dsn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PGHOST", "db.example")
        with pytest.raises(Refused, match="does not ask for TLS"):
            Postgres("dbname=holdfast")
        monkeypatch.setenv("PGSSLMODE", "verify-full")
        assert Postgres("dbname=holdfast").is_fencing

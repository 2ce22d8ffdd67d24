"""A hub in PostgreSQL, for teams and fleets (``docs/many-machines.md``).

What a hub must never get wrong is in the database: functions (``postgres_1.sql``) store events,
check their numbers and epochs, and give leases by the database's clock, each in one transaction and
one round trip. All of them can be called again when an answer was lost.

A cursor is a snapshot of the database: which transactions had ended when it was taken. ``pull``
returns what has become visible since then, so that nothing is skipped, however long a transaction
took and in whatever order they ended (``docs/decisions/0038``).
"""

from __future__ import annotations

import json
import os
import socket
import threading
from json.encoder import encode_basestring_ascii
from time import monotonic

from holdfast.core.json_text import BadJson, dumps
from holdfast.errors import INSTALL_NEWER, Fault, Refused
from holdfast.hub.contract import POSTGRES, Forked, Held, Lease, Pulled, unreachable
from holdfast.hub.events import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    import psycopg

    from holdfast.core.types import Fields, SharedEvent

MIGRATIONS = ("postgres_1.sql",)
"""The scripts that bring the tables from one version to the next."""
VERSION = len(MIGRATIONS)
CONNECT_S = 10
ANSWER_S = 60.0
"""The longest time that one answer may take."""
_SERVER_SHARE = 0.8
"""The part of that after which the server gives up by itself."""
_MIGRATION_SHARE = 10
"""How many times as long a migration may take."""
_MAX_WHY = 300
_EXAMPLE = "holdfast hub add postgres postgresql://USER@HOST/DATABASE?sslmode=verify-full"
_SECRETS = frozenset(
    ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
)
_SAFE_MODES = frozenset(("require", "verify-ca", "verify-full"))
_PLAIN = "disable"
"""The ``sslmode`` that a person must have written to let events travel unencrypted."""
_LOCAL_HOSTS = frozenset(("localhost", "::1", ""))
_GAP, _FORK = "HF001", "HF002"
_DENIED, _CANCELED, _DOUBLED = "42501", "57014", "23505"
_MISSING = frozenset(("42P01", "3F000"))
_FOREIGN = frozenset(("42703", "42P07", "42723", "42710"))
"""Other columns than ours, or names that are taken."""
_TRY_AGAIN = frozenset(("40001", "40P01"))
"""The database chose this transaction to end, so that another one can go on."""

_CHECK = """
SELECT v.version, v.cluster, here.cluster,
       here.cluster || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
FROM (SELECT system_identifier::text AS cluster FROM pg_control_system()) AS here,
     schema_version AS v
JOIN pg_class ON pg_class.oid = v.tableoid
WHERE pg_class.relnamespace = to_regnamespace(quote_ident(current_schema()))
"""

_PULL = """
WITH RECURSIVE span AS MATERIALIZED (
  SELECT coalesce(%(upto)s::pg_snapshot, pg_current_snapshot()) AS upto
), news AS (
  SELECT e.xid, e.replica, e.n, e.fenced, e.event
  FROM events AS e, span
  WHERE (e.xid, e.replica, e.n) > (
          coalesce(%(xid)s::xid8, pg_snapshot_xmin(%(since)s::pg_snapshot)),
          %(replica)s::text, %(n)s::bigint)
    AND pg_visible_in_snapshot(e.xid, span.upto)
    AND NOT pg_visible_in_snapshot(e.xid, %(since)s::pg_snapshot)
  ORDER BY e.xid, e.replica, e.n LIMIT %(most)s
), page AS MATERIALIZED (
  SELECT * FROM (
    SELECT *, row_number() OVER arrival AS place,
              sum(octet_length(event)) OVER arrival - octet_length(event) AS before
    FROM news WINDOW arrival AS (ORDER BY xid, replica, n)) AS sized
  WHERE before < %(most_bytes)s
), known AS (
  (SELECT replica, n FROM events ORDER BY replica DESC, n DESC LIMIT 1)
  UNION ALL
  SELECT earlier.replica, earlier.n FROM known, LATERAL (
    SELECT replica, n FROM events WHERE events.replica < known.replica
    ORDER BY replica DESC, n DESC LIMIT 1) AS earlier
)
SELECT (SELECT upto::text FROM span),
       (SELECT json_object_agg(replica, n) FROM known),
       (SELECT count(*) FROM news) > count(*) OR count(*) = %(most)s,
       string_agg(translate(event, E'\\n', ' '), E'\\n' ORDER BY xid, replica, n),
       array_agg(place - 1) FILTER (WHERE fenced),
       (SELECT json_build_object('xid', xid::text, 'replica', replica, 'n', n)
        FROM page ORDER BY page.xid DESC, page.replica DESC, page.n DESC LIMIT 1)
FROM page
"""
_PUSH = """
SELECT replica, n FROM push(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::bigint[],
                            %s::boolean[], %s::text[])
"""
_CLAIM = "SELECT epoch, holder, left_s FROM claim(%s::text, %s::text, %s::float8, %s::bigint)"
_RELEASE = "SELECT release(%s::text, %s::bigint)"
_LEASES = """
SELECT stream, holder, epoch, extract(epoch FROM until - clock_timestamp())::float8
FROM leases WHERE until > clock_timestamp() ORDER BY stream
"""
_LOCK_SCHEMA = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast ' || current_schema(), 0))"
_HAS_VERSION = """
SELECT to_regclass(quote_ident(current_schema()) || '.schema_version') IS NOT NULL
"""
_KEEP_TO_SCHEMA = """
SELECT set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true),
       set_config('statement_timeout', '0', true)
"""
_PUT_VERSION = """
WITH gone AS (DELETE FROM schema_version)
INSERT INTO schema_version SELECT %s, system_identifier::text FROM pg_control_system()
"""
_RENUMBER = """
LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE;
UPDATE events SET xid = DEFAULT;
"""
"""The numbers of transactions of another server mean nothing here."""

_encode = json.JSONEncoder(separators=(",", ":")).encode

PULL_EVENTS = 5_000
PULL_BYTES = 2_000_000
_BEGINNING = "1:1:"
"""The snapshot in which no transaction had ended."""


class Postgres:
    """The events and leases of all replicas, in the current schema of a connection."""

    kind = POSTGRES
    is_fencing = True

    def __init__(
        self, where: str, *, connect_s: float = CONNECT_S, answer_s: float = ANSWER_S
    ) -> None:
        self.where = self.address = where.strip()
        self._driver = _load_driver()
        self._parameters = _parameters(self.where, connect_s, answer_s)
        self._answer_s = answer_s
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._limit: _AnswerLimit | None = None
        self._era = ""
        """The server and its timeline, in which its snapshots mean something."""
        self._has_tables = False
        self._is_late = False
        """True if the last connection was ended because no answer came."""

    # Events

    def pull(self, since: str, *, most: int = PULL_EVENTS) -> Pulled:
        rows = self._run(
            _PULL,
            lambda: {**self._place(since), "most": most, "most_bytes": PULL_BYTES},
            is_writing=False,
        )
        if not rows:
            return Pulled([], since, {})
        upto, numbers, has_more, lines, fenced, last = rows[0]
        known = {_unquoted(replica): n for replica, n in (numbers or {}).items()}
        events, flaws = self._parsed(lines, frozenset(fenced or ()))
        start = self._place(since)
        is_now = start["upto"] is None
        if has_more:
            start |= {"upto": upto, **last}
        elif lines or not is_now:
            start = _start_of(upto)
        else:
            return Pulled([], since, known, is_all=True)
        cursor = dumps([self._era, *start.values()])
        return Pulled(events, cursor, known, is_all=is_now and not has_more, flaws=flaws)

    def _place(self, cursor: str) -> Fields:
        """Return where a cursor stands; the beginning if it is not one of this server's."""
        try:
            era, since, upto, xid, replica, n = json.loads(cursor or "[]")
        except (TypeError, ValueError):
            return _start_of(_BEGINNING)
        if era != self._era:
            return _start_of(_BEGINNING)
        return {"since": since, "upto": upto, "xid": xid, "replica": replica, "n": n}

    def _parsed(
        self, lines: str | None, fenced: frozenset[int]
    ) -> tuple[list[SharedEvent], list[str]]:
        """Return the events of these lines, and what is wrong with those that are left out."""
        events: list[SharedEvent] = []
        flaws: list[str] = []
        for number, line in enumerate(lines.split("\n") if lines else ()):
            try:
                event = parse(line.encode())
            except BadJson as why:
                flaws.append(f"{self.where}: an event was left out ({why})")
                continue
            events.append({**event, "fenced": True} if number in fenced else event)
        return events, flaws

    def push(self, events: Sequence[SharedEvent]) -> list[tuple[str, int]]:
        if not events:
            return []
        values = (
            _array(_quoted(event["replica"]) for event in events),
            _array(str(event["n"]) for event in events),
            _array(_quoted(event["stream"]) for event in events),
            _array(_quoted(event["cause"]["id"]) for event in events),
            _array(str(event.get("epoch", 0)) for event in events),
            _array(str(bool(event.get("fenced"))) for event in events),
            _array(_text_of(event) for event in events),
        )
        return [(_unquoted(replica), n) for replica, n in self._run(_PUSH, lambda: values)]

    # Leases

    def claim(self, stream: str, holder: str, ttl_s: float, epoch: int = 0) -> int:
        values = _quoted(stream), _quoted(holder), ttl_s, epoch
        taken, owner, left_s = self._run(_CLAIM, lambda: values)[0]
        if not taken:
            raise Held(stream, _unquoted(owner), left_s)
        return int(taken)

    def release(self, stream: str, epoch: int) -> None:
        self._run(_RELEASE, lambda: (_quoted(stream), epoch))

    def leases(self) -> list[Lease]:
        rows = self._run(_LEASES, dict, is_writing=False)
        return [
            Lease(_unquoted(stream), _unquoted(holder), epoch, left_s)
            for stream, holder, epoch, left_s in rows
        ]

    # The connection

    def reach(self) -> None:
        self._run("SELECT", lambda: (), is_writing=False)

    def is_public(self) -> bool | None:
        """Return False: a database has logins, and nothing that everybody can read."""
        return False

    def close(self) -> None:
        if self._limit is not None:
            self._is_late = self._limit.has_ended_it
            self._limit.end()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._limit = None

    def _run(self, query: Any, values: Any, *, is_writing: bool = True) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. ``values`` is called when the connection is known.

        A connection of an earlier call may have been lost since, and a statement may have been
        chosen to end a deadlock. It is then sent again, once.
        """
        is_retry = self._is_late = False
        while True:
            was_open = self._connection is not None
            try:
                connection = self._connected()
                if not self._has_tables and is_writing:
                    self._migrate(connection)
                return self._rows(connection, query, values()) if self._has_tables else []
            except self._driver.Error as error:
                is_lost = self._connection is None or self._connection.closed
                if is_lost:
                    self.close()
                may_help = is_lost and was_open and not self._is_late
                if is_retry or not (may_help or error.sqlstate in _TRY_AGAIN):
                    raise self._fault(error) from None
                is_retry = True

    def _rows(
        self, connection: psycopg.Connection[tuple[Any, ...]], query: Any, values: Any
    ) -> list[tuple[Any, ...]]:
        assert self._limit is not None
        self._limit.begin()
        try:
            return connection.execute(query, values).fetchall()
        finally:
            self._limit.pause()

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Return the connection, made if there is none, to tables of a version that is known."""
        if self._connection is not None:
            return self._connection
        connection: psycopg.Connection[tuple[Any, ...]] = self._driver.connect(
            self.where, autocommit=True, **self._parameters
        )
        self._connection = connection
        self._limit = _AnswerLimit(connection.fileno(), self._answer_s)
        self._has_tables = False
        try:
            self._check(connection)
        except BaseException:
            self.close()
            raise
        return connection

    def _check(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Find out the version of the tables; bring older ones up to date."""
        try:
            rows = self._rows(connection, _CHECK, ())
        except self._driver.Error as error:
            if error.sqlstate not in _MISSING:
                raise
            rows = []
        if not rows:
            self._check_schema(connection)
            return
        version, cluster, here, self._era = rows[0]
        if version > VERSION:
            raise Fault(
                "newer_hub",
                f"a newer Holdfast made the tables of the hub {self.where} (version {version})",
                INSTALL_NEWER,
            )
        self._has_tables = True
        if version < VERSION or cluster != here:
            self._migrate(connection)

    def _check_schema(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Raise ``Refused`` (no_schema) if there is no place for tables."""
        if self._rows(connection, "SELECT current_schema()", ()) == [(None,)]:
            raise Refused(
                "no_schema",
                f"the hub {self.where}: the schema of this connection does not exist, or this "
                "role may not use it",
                "as the owner of the database: CREATE SCHEMA NAME, or the GRANTs in "
                "docs/many-machines.md, Roles",
            )

    def _migrate(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Make the tables, or bring them up to date. Of several processes, one does it."""
        assert self._limit is not None
        self._limit.begin(_MIGRATION_SHARE)
        try:
            with connection.transaction():
                self._migrate_once(connection)
            row = connection.execute(_CHECK).fetchone()
        finally:
            self._limit.pause()
        assert row is not None
        self._has_tables, self._era = True, row[3]

    def _migrate_once(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        connection.execute(_LOCK_SCHEMA)
        version, is_moved = 0, False
        if connection.execute(_HAS_VERSION).fetchone() == (True,):
            row = connection.execute(_CHECK).fetchone()
            version, is_moved = (row[0], row[1] != row[2]) if row is not None else (0, False)
        connection.execute(_KEEP_TO_SCHEMA)
        for script in MIGRATIONS[version:]:
            connection.execute(_script(script))
        if is_moved:
            connection.execute(_RENUMBER)
        if version < VERSION or is_moved:
            connection.execute(_PUT_VERSION, (VERSION,))

    def _fault(self, error: psycopg.Error) -> Fault | Refused:
        """Return what an error of the database means here."""
        code, hub = error.sqlstate, f"the hub {self.where}"
        if self._is_late or code == _CANCELED:
            return unreachable(self.where, f"no answer within {self._answer_s:g} s")
        if code == _FORK:
            replica, _, n = (error.diag.message_detail or "").rpartition(" ")
            return Forked(replica, int(n))
        if code == _GAP:
            why = error.diag.message_primary
            return Fault("hub_gap", f"{hub} has lost events: {why}", "holdfast hub sync")
        if code == _DOUBLED:
            why = error.diag.message_detail
            return Fault("hub_doubled", f"{hub} has an event of this id: {why}", "holdfast verify")
        if code == _DENIED:
            return Fault(
                "hub_denied",
                f"{hub}: this role lacks a right ({error.diag.message_primary})",
                "connect once as the owner of the hub, and grant the rights: "
                "docs/many-machines.md, Roles",
            )
        if code in _FOREIGN:
            return Refused(
                "not_a_hub",
                f"{hub}: its schema is in use by something else ({error.diag.message_primary})",
                "use a schema of its own: add ?options=-csearch_path%3DNAME to the DSN",
            )
        return unreachable(self.where, _in_words(error))


class _AnswerLimit:
    """Ends a connection whose server does not answer.

    A server that is stopped, or cut off behind a proxy, keeps its connections open, and the driver
    waits for its answer without a limit. One thread looks whether the answer is due.
    """

    def __init__(self, fileno: int, answer_s: float) -> None:
        self._socket = socket.socket(fileno=os.dup(fileno))
        self._answer_s = answer_s
        self._due_s: float | None = None
        self._end = threading.Event()
        self.has_ended_it = False
        threading.Thread(target=self._look, name="holdfast-hub", daemon=True).start()

    def begin(self, times: int = 1) -> None:
        self._due_s = monotonic() + times * self._answer_s

    def pause(self) -> None:
        self._due_s = None

    def end(self) -> None:
        self._end.set()

    def _look(self) -> None:
        # A wait that begins meanwhile is due later than the next look.
        left_s = self._answer_s
        while not self._end.wait(left_s):
            due_s = self._due_s
            left_s = self._answer_s if due_s is None else due_s - monotonic()
            if left_s <= 0:
                self.has_ended_it = True
                self._socket.shutdown(socket.SHUT_RDWR)
                break
        self._socket.close()


def _load_driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise Fault(
            "no_driver",
            "hub: PostgreSQL: its driver, psycopg, is not installed",
            "pip install 'holdfast[postgres]'",
        ) from None
    return psycopg


def _parameters(where: str, connect_s: float, answer_s: float) -> dict[str, str]:
    """Return the parameters of a connection that its DSN leaves open; refuse an unsafe DSN.

    No message quotes the DSN before it is known to have no secret.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    tried = "hub add postgres"
    if not where:
        raise Refused("invalid", f"{tried}: a DSN is missing", _EXAMPLE)
    if _has_stray_at(where):
        why = f"{tried}: the DSN seems to have a secret (an @ too many), which would be stored"
        hint = "leave a password out, and write %40 for an @ in a name: docs/many-machines.md"
        raise Refused("secret", why, hint)
    try:
        named = {name: str(value) for name, value in conninfo_to_dict(where).items()}
    except ProgrammingError:
        raise Refused("invalid", f"{tried}: this is not a DSN", _EXAMPLE) from None
    secrets = sorted(_SECRETS & named.keys())
    if secrets:
        line = f"{_passfile_line(named)} in ~/.pgpass (chmod 600), or a passfile= in the DSN"
        why = f"{tried}: the DSN has a secret ({', '.join(secrets)}), which would be stored"
        raise Refused("secret", why, f"leave it out, and put the line {line}")
    _refuse_unencrypted(named)
    server_ms = round(answer_s * _SERVER_SHARE * 1_000)
    options = (
        f"{named.get('options', '')} -cstatement_timeout={server_ms}"
        f" -cidle_in_transaction_session_timeout={server_ms}"
        " -cdefault_transaction_isolation=read\\ committed"
    )
    defaults = {
        "application_name": "holdfast",
        "connect_timeout": str(round(connect_s)),
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "target_session_attrs": "read-write",
        "tcp_user_timeout": str(round(answer_s * 1_000)),
    }
    unnamed = {name: value for name, value in defaults.items() if name not in named}
    return {**unnamed, "options": options.strip(), "client_encoding": "UTF8"}


def _has_stray_at(where: str) -> bool:
    """Return whether a URI has an @ beside the one before its host.

    It is mostly of a password with an @ or / that was not encoded. The driver takes what is before
    or behind that for a host or a database, which messages name.
    """
    authority, _, path = where.partition("://")[2].partition("?")[0].partition("/")
    return authority.count("@") > 1 or "@" in path


def _passfile_line(parameters: dict[str, str]) -> str:
    parts = [parameters.get(name, "*") for name in ("host", "port", "dbname", "user")]
    return ":".join([*parts, "PASSWORD"])


def _refuse_unencrypted(parameters: dict[str, str]) -> None:
    """Raise ``Refused`` if events may cross a network in plain text, and the DSN does not allow it.

    A service file may name any host, so a DSN with a service has to say it as well.
    """
    hosts = parameters.get("hostaddr") or parameters.get("host") or os.environ.get("PGHOST", "")
    has_service = "service" in parameters or "PGSERVICE" in os.environ
    is_local = all(map(_is_local, hosts.split(","))) and (bool(hosts) or not has_service)
    mode = parameters.get("sslmode") or os.environ.get("PGSSLMODE", "")
    if is_local or mode in _SAFE_MODES or mode == _PLAIN:
        return
    raise Refused(
        "unencrypted",
        f"hub add postgres: {hosts or 'the service'}: the DSN does not ask for TLS "
        f"(sslmode={mode or 'prefer'})",
        "add sslmode=verify-full to the DSN; in a network that encrypts by itself, sslmode=disable",
    )


def _is_local(host: str) -> bool:
    is_loopback = host.startswith("127.") and host.replace(".", "").isdigit()
    return host in _LOCAL_HOSTS or is_loopback or host.startswith(("/", "@"))


def _start_of(snapshot: str) -> Fields:
    """Return the place after everything that had ended in a snapshot."""
    return {"since": snapshot, "upto": None, "xid": None, "replica": "", "n": 0}


def _text_of(event: SharedEvent) -> str:
    """Return an event as JSON in ASCII, which a database of any encoding stores unchanged."""
    plain = {name: value for name, value in event.items() if name != "fenced"}
    return _encode(plain)


def _array(texts: Iterable[str]) -> str:
    """Return an array as PostgreSQL writes it. The driver takes ten times as long for that."""
    plain = '","'.join(text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return f'{{"{plain}"}}'


def _quoted(text: str) -> str:
    """Return a text as in JSON, without quotes: PostgreSQL stores neither NUL nor surrogates."""
    return encode_basestring_ascii(text)[1:-1]


def _unquoted(text: str) -> str:
    return str(json.loads(f'"{text}"'))


def _in_words(error: psycopg.Error) -> str:
    return " ".join(str(error).split())[:_MAX_WHY] or type(error).__name__


def _script(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()

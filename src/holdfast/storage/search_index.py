"""The full-text index of one ledger's events, in a file of its own beside it: ``search.db``.

It is a view that only ``search`` reads and writes. It has the words of the events and their seqs,
but not their texts: what is found is read in the ledger again, so the file cannot make anything up.
It is filled when somebody searches, by the events after the last one that it has. It is made anew
if it is damaged, of another ledger or of another version, or if the ledger no longer has the event
that it ends with. It is safe to delete.

Every operator of SQLite's query language is quoted, so words are data. A word finds the words that
it is or begins; those that it is come first. Chinese and Japanese characters, which are written
without spaces, are words of their own.
"""

from __future__ import annotations

import _sqlite3
import os
import re
from contextlib import suppress

from holdfast.core.event_text import text_of
from holdfast.core.json_text import is_encodable
from holdfast.core.refusal import shell_line
from holdfast.errors import Fault, Refused
from holdfast.storage.database import result_code, uri_path
from holdfast.storage.ledger import BadEvent, read_event
from holdfast.workspace.location import names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection
    from typing import Self

    from holdfast.core.types import Fields
    from holdfast.storage.ledger import Ledger
    from holdfast.system.disk import Disk

    Progress = Callable[[str, int, int], None]
    Texts = dict[int, tuple[str, str]]
    """Texts and their types, by number."""

NAME = "search.db"
MAX_UNINDEXED = 50_000
"""The number of events that are searched without the file, the newest."""
_APPLICATION_ID = 0x48465358
_VERSION = 1
"""The version of the file, and of the texts that it was made from."""
_BESIDE = ("", "-journal", "-wal", "-shm")
_AT_ONCE = 5_000
"""The number of events that are added in one transaction."""
_MAX_TEXT = 64 * 1024
_MAX_WORDS, _MAX_WORD_CHARS = 32, 200
_MAX_SIGNS = 40
_HINT = "holdfast search WORDS"
_WAIT_S = 5.0
_SNIPPET_WORDS = 24
_BEGIN, _END, _BETWEEN = "\x02", "\x03", "\x1f"
_WORDS = """CREATE VIRTUAL TABLE words USING fts5 (
  text, type, {content} tokenize = 'unicode61 remove_diacritics 2'
)"""
_SCHEMA = f"""
{_WORDS.format(content="content = '',")};
CREATE TABLE marks (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""
_ADD = "INSERT INTO words (rowid, text, type) VALUES (?, ?, ?)"
_FIND = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank, rowid DESC LIMIT ?"
_SNIPPET = (
    f"SELECT rowid, snippet(words, 0, char(2), char(3), '…', {_SNIPPET_WORDS})"
    " FROM words WHERE words MATCH ?"
)
_CONTROLS = {code: " " for code in range(32) if code != 10}
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_ERRORS = (_sqlite3.Error, UnicodeDecodeError)
_DAMAGED = (
    _sqlite3.SQLITE_ERROR,  # No such table: the schema is damaged.
    _sqlite3.SQLITE_CORRUPT,
    _sqlite3.SQLITE_CONSTRAINT,
    _sqlite3.SQLITE_NOTADB,
)
_BUSY = (_sqlite3.SQLITE_BUSY, _sqlite3.SQLITE_LOCKED)


class Unusable(Exception):
    """The file cannot be used or brought up to date; the message says why."""

    def __init__(self, error: Exception) -> None:
        super().__init__(_why(error))
        self.is_damaged = result_code(error) in _DAMAGED


def as_query(words: str) -> str:
    """Return the words as a query that no sign in them changes; raise ``Refused`` without any."""
    if not is_encodable(words):
        raise Refused("invalid", "search: the words are not text", _HINT)
    found = [word for word in words.translate(_CONTROLS).split() if any(map(str.isalnum, word))]
    if not found:
        message = "search: only words with a letter or a digit can be found"
        raise Refused("invalid", message, _way_to_find(words.strip()))
    if len(found) > _MAX_WORDS:
        message = f"search: {len(found):,} words are too many; {_MAX_WORDS} are allowed"
        raise Refused("invalid", message, _HINT)
    longest = max(map(len, found))
    if longest > _MAX_WORD_CHARS:
        message = (
            f"search: a word of {longest:,} characters is too long; {_MAX_WORD_CHARS} are allowed"
        )
        raise Refused("invalid", message, _HINT)
    quoted = [f'"{_apart(word)}"' for word in (word.replace('"', " ") for word in found)]
    return " AND ".join([f"({word} OR {word} *)" for word in quoted])


def _way_to_find(signs: str) -> str:
    """Return the command that finds signs, such as an emoji, which are no words."""
    is_plain = signs.isprintable() and not signs.startswith("-")
    if not is_plain or not 0 < len(signs) <= _MAX_SIGNS:
        return _HINT
    return shell_line(["holdfast", "log", "--grep", signs])


def _apart(text: str) -> str:
    """Return the text with its Chinese and Japanese characters as words of their own."""
    return _WITHOUT_SPACES.sub(rf"{_BETWEEN}\g<0>{_BETWEEN}", text)


def snippets(query: str, texts: Texts) -> dict[int, Fields]:
    """Return a snippet of each text: ``text``, and as ``marks`` where the words are in it."""
    connection = _sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(_WORDS.format(content=""))
    connection.executemany(_ADD, _rows(texts))
    return {number: _marked(text) for number, text in connection.execute(_SNIPPET, (query,))}


def _marked(snippet: str) -> Fields:
    text, marks = "", []
    for part in snippet.replace(_BETWEEN, "").replace("\n", " ").split(_BEGIN):
        word, is_marked, rest = part.partition(_END)
        if is_marked:
            marks.append([len(text), len(text) + len(word)])
        text += word + rest
    return {"text": text, "marks": marks}


def _rows(texts: Texts) -> list[tuple[int, str, str]]:
    """Return rows of the index, with the texts as they are indexed."""
    return [
        (number, _apart(text[:_MAX_TEXT].translate(_CONTROLS)), kind)
        for number, (text, kind) in texts.items()
    ]


class SearchIndex:
    """One connection to the index of a ledger: the file, or memory in place of it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    def in_memory(cls) -> Self:
        """Return an empty index without a file."""
        connection = _sqlite3.connect(":memory:", isolation_level=None)
        connection.executescript(_SCHEMA)
        return cls(connection)

    @classmethod
    def open(cls, ledger: Ledger, disk: Disk) -> Self:
        """Open the file of a ledger; make it if there is none that can be used.

        Raise ``Unusable`` if that is not possible.
        """
        path = os.path.join(ledger.folder, NAME)
        try:
            connection = _usable(path, ledger)
            if connection is None:
                connection = _make_once(path, ledger, disk)
        except (OSError, *_ERRORS) as error:
            raise Unusable(error) from error
        return cls(connection)

    @property
    def seq(self) -> int:
        """The seq of the last event that the index has."""
        return int(_mark(self._connection, "seq") or 0)

    def fill(self, ledger: Ledger, progress: Progress, after: int | None = None) -> None:
        """Add the events after a seq, by default after the last one that is here.

        Several processes may do this at once. Raise ``Unusable`` if it cannot be written.
        """
        begin, head = self.seq if after is None else after, ledger.head_seq
        done = begin
        while done < head:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                done = max(done, self.seq)  # Another process may have gone on.
                upto = min(done + _AT_ONCE, head)
                self._add(ledger, done, upto)
                self._connection.execute("COMMIT")
            except (Fault, *_ERRORS) as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, Fault):
                    raise
                raise Unusable(error) from error
            done = upto
            progress("events", done - begin, head - begin)

    def _add(self, ledger: Ledger, after: int, upto: int) -> None:
        """Add the events of a range; leave out those that cannot be read."""
        last = _mark(self._connection, "hash_seq"), _mark(self._connection, "hash")
        texts: Texts = {}
        for row in ledger.raw_rows_after(after, upto):
            last = row[0], row[11]
            with suppress(BadEvent, Fault):
                texts[row[0]] = text_of(read_event(row)), row[6]
        self.add(texts)
        gaps = max(int(_mark(self._connection, "gaps") or 0), ledger.absent_events)
        marks = {"seq": upto, "hash_seq": last[0], "hash": last[1], "gaps": gaps}
        _put_marks(self._connection, **{name: str(value) for name, value in marks.items()})

    def find(self, query: str, limit: int) -> list[tuple[float, int]]:
        """Return rank and seq of the best hits; a lower rank is better.

        Raise ``Unusable`` if the file is damaged.
        """
        try:
            rows = self._connection.execute(_FIND, (query, limit)).fetchall()
        except _ERRORS as error:
            raise Unusable(error) from error
        return [(rank, seq) for seq, rank in rows]

    def add(self, texts: Texts) -> None:
        """Add texts by their numbers."""
        self._connection.executemany(_ADD, _rows(texts))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()


def remove(ledger: Ledger, disk: Disk) -> None:
    """Remove the file, which the next search makes anew."""
    for end in _BESIDE:
        disk.remove(os.path.join(ledger.folder, NAME) + end)


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _connect(path: str, mode: str) -> Connection:
    connection = _sqlite3.connect(
        f"file:{uri_path(path)}?mode={mode}", uri=True, isolation_level=None, timeout=_WAIT_S
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _is_of(connection: Connection, ledger: Ledger) -> bool:
    """Return whether the file is an index of this ledger, as far as it goes."""
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if (application, version) != (_APPLICATION_ID, _VERSION):
            return False
        marks = dict(connection.execute("SELECT name, value FROM marks"))
        if marks["identity"] != ledger.identity() or int(marks["gaps"]) > ledger.absent_events:
            return False
        seq = int(marks["hash_seq"])
        return int(marks["seq"]) <= ledger.head_seq and (
            not seq or ledger.hash_at(seq) == marks["hash"]
        )
    except _ERRORS as error:
        if result_code(error) not in _DAMAGED:
            raise
        return False
    except (Fault, LookupError, ValueError):
        return False


def _usable(path: str, ledger: Ledger) -> Connection | None:
    """Open the file if it is an index of this ledger; return None otherwise."""
    connection = _connect(path, "rw") if _is_file(path) else None
    if connection is not None and not _is_of(connection, ledger):
        connection.close()
        return None
    return connection


def _make_once(path: str, ledger: Ledger, disk: Disk) -> Connection:
    """Make the file, unless another process has made it meanwhile."""
    try:
        lock = disk.lock(f"{path}.lock", _WAIT_S)
    except Fault as busy:
        raise Unusable(busy) from busy
    try:
        return _usable(path, ledger) or _make(path, ledger, disk)
    finally:
        disk.unlock(lock)


def _make(path: str, ledger: Ledger, disk: Disk) -> Connection:
    """Make an empty index under another name, and put it in place."""
    folder, name = os.path.split(path)
    for other in names_in(folder):
        if other.startswith(f"{name}.new"):  # A killed process did not put it in place.
            disk.remove(os.path.join(folder, other))
    fresh = f"{path}.new-{os.getpid()}"
    disk.create(fresh, b"", 0o600)
    try:
        connection = _connect(fresh, "rw")
        connection.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
        _put_marks(
            connection, identity=ledger.identity(), gaps=str(ledger.absent_events), seq="0",
            hash_seq="0", hash="",
        )  # fmt: skip
        connection.close()
        for end in _BESIDE:
            disk.remove(path + end)
        disk.move(fresh, path)
    except BaseException:
        disk.remove(fresh)
        raise
    return _connect(path, "rw")


def _mark(connection: Connection, name: str) -> str:
    row = connection.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
    return row[0] if row is not None else ""


def _put_marks(connection: Connection, **marks: str) -> None:
    connection.executemany("INSERT OR REPLACE INTO marks VALUES (?, ?)", list(marks.items()))


def _why(error: Exception) -> str:
    if result_code(error) in _BUSY:
        return "another search is filling it"
    return getattr(error, "strerror", None) or str(error)

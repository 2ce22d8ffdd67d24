-- The ledger of one repository. Events are the truth; every other table is made from them in the
-- same transaction, and `holdfast repair` makes them again.

-- What happened, in order. The hash covers all columns before it, so each event proves the one
-- before it (storage/ledger.py).
CREATE TABLE events (
  seq     INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,      -- the request's id; the second event of a request has ".2"
  at      TEXT NOT NULL,
  stream  TEXT NOT NULL,             -- the aggregate it belongs to
  version INTEGER NOT NULL,          -- its number within the stream, from 1
  v       INTEGER NOT NULL,          -- the version of the event format
  type    TEXT NOT NULL,
  data    TEXT NOT NULL,             -- JSON
  by      TEXT NOT NULL,             -- JSON: surface and session
  part    TEXT,                      -- JSON [k, n]: only in events that came from version 0.1
  prev    TEXT NOT NULL,
  hash    TEXT NOT NULL,
  UNIQUE (stream, version)
);

CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'an event is never changed'); END;

CREATE TRIGGER events_are_never_removed BEFORE DELETE ON events
BEGIN SELECT raise(ABORT, 'an event is never removed'); END;

-- One row per aggregate: where it stands, and whatever selects it.
CREATE TABLE streams (
  stream       TEXT PRIMARY KEY,
  kind         TEXT NOT NULL,        -- workflow, initiatives, interview, delegation, ...
  seq          INTEGER NOT NULL,     -- its last event
  version      INTEGER NOT NULL,
  hash         TEXT NOT NULL,
  -- The rest describes workflows, and is empty for other kinds.
  recipe       TEXT,
  format       TEXT,
  subject      TEXT,
  title        TEXT,
  status       TEXT,
  phase        TEXT,
  phase_status TEXT,
  phase_index  INTEGER,
  phase_total  INTEGER,
  tasks_done   INTEGER,
  tasks_total  INTEGER,
  branch       TEXT,
  floating     INTEGER,              -- 1: it has no branch of its own yet
  worktree     TEXT,
  record       TEXT,                 -- its file, from the worktree's root
  session      TEXT,                 -- JSON: the session that holds it
  session_id   TEXT,
  session_pid  INTEGER,
  ttl          TEXT,
  unread       TEXT,                 -- JSON: required reading that was not read; null if none
  initiative   TEXT,                 -- the initiative it belongs to
  milestone    TEXT,
  created_at   TEXT,
  updated_at   TEXT,
  digest       TEXT NOT NULL         -- of the columns before it
) WITHOUT ROWID;

-- With the status in an index, SQLite need not look it up in the table for each row.
CREATE INDEX active_by_worktree ON streams (worktree, format, status, record)
  WHERE status IN ('in_progress', 'blocked');
CREATE INDEX active_by_time ON streams (updated_at, seq, status)
  WHERE status IN ('in_progress', 'blocked');
CREATE INDEX active_by_session ON streams (session_id)
  WHERE status IN ('in_progress', 'blocked') AND session_id IS NOT NULL;
CREATE INDEX active_by_client ON streams (session_pid)
  WHERE status IN ('in_progress', 'blocked') AND session_pid IS NOT NULL;
CREATE INDEX ended_by_time ON streams (updated_at, seq)
  WHERE status IN ('completed', 'abandoned', 'expired');
CREATE INDEX streams_with_unread ON streams (stream) WHERE unread IS NOT NULL;
CREATE INDEX streams_by_initiative ON streams (initiative) WHERE initiative IS NOT NULL;

-- A state of each stream, as JSON. It is written every few events; the events after it are applied
-- when the stream is loaded. Rows have digests because a bit that flips on the disk must not become
-- part of the next event. (A version that adds a new format of events must store the state with each
-- of them, so that this one can still show it.)
CREATE TABLE states (
  stream  TEXT PRIMARY KEY,
  version INTEGER NOT NULL,          -- the last event that the state shows
  hash    TEXT NOT NULL,             -- of that event
  state   TEXT NOT NULL,
  digest  TEXT NOT NULL              -- of the columns before it
);

-- The files that show streams, as they were last written.
CREATE TABLE records (
  worktree   TEXT NOT NULL,
  path       TEXT NOT NULL,          -- from the worktree's root
  stream     TEXT NOT NULL,
  seq        INTEGER NOT NULL,       -- the event it shows
  digest     TEXT NOT NULL,          -- the one that its ``_holdfast`` object has
  size       INTEGER NOT NULL,
  mtime_ns   INTEGER NOT NULL,
  inode      INTEGER NOT NULL,
  device     INTEGER NOT NULL,
  written_ns INTEGER NOT NULL,       -- when this row was written
  PRIMARY KEY (worktree, path)
) WITHOUT ROWID;

-- Small facts. `identity` names this ledger in its records. `unplaced` lists the files of the last
-- transaction, which the next one looks for: their writer may have been killed before it put them
-- in place. The others are notes of layers, and safe to lose.
CREATE TABLE facts (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

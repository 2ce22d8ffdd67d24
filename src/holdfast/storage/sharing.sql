-- What a ledger knows of other replicas. The first three tables are made from events: a shared event
-- is stored with the local event that it caused, or that took it in.

-- Where each shared event is.
CREATE TABLE shared_events (
  replica TEXT NOT NULL,             -- the ledger it was carried out on
  n       INTEGER NOT NULL,          -- its number there, from 1 and without gaps
  lamport INTEGER NOT NULL,
  stream  TEXT NOT NULL,
  seq     INTEGER NOT NULL,          -- the local event that has it
  fenced  INTEGER NOT NULL,          -- 1: it was made under a lease that was lost
  PRIMARY KEY (replica, n)
) WITHOUT ROWID;

CREATE INDEX shared_events_by_order ON shared_events (stream, lamport, replica, n);

-- The replicas whose events are here, with the highest numbers known of each.
CREATE TABLE replicas (
  replica TEXT PRIMARY KEY,
  name    TEXT NOT NULL,             -- what people call its machine
  n       INTEGER NOT NULL,
  lamport INTEGER NOT NULL,
  at      TEXT NOT NULL              -- when its last event was made, by its own clock
) WITHOUT ROWID;

-- The shared state of each stream up to an event, as all replicas compute it.
CREATE TABLE folds (
  stream    TEXT PRIMARY KEY,
  fold      TEXT NOT NULL,           -- JSON: core/sharing.py
  conflicts INTEGER NOT NULL,        -- the number of those that are not settled
  digest    TEXT NOT NULL            -- of the columns before it
);

CREATE INDEX folds_with_conflicts ON folds (stream) WHERE conflicts > 0;

-- Who holds what, for a time. Safe to lose: a lease that is gone has run out.
CREATE TABLE leases (
  stream   TEXT PRIMARY KEY,
  holder   TEXT NOT NULL,            -- the session that holds it
  epoch    INTEGER NOT NULL,         -- higher with every new lease of the stream
  ttl_s    REAL NOT NULL,
  until_ms INTEGER NOT NULL,
  is_hub   INTEGER NOT NULL          -- 1: the hub gave it, and fences events by its epoch
) WITHOUT ROWID;

-- Version 1 of a hub in PostgreSQL: hub/postgres.py carries it out in one transaction, with the
-- hub's schema as the search path. docs/decisions/0038 has the reasons.
--
-- Only the functions change anything, with the rights of their owner. A worker needs EXECUTE on
-- them and SELECT on the tables, so whatever it sends, its events are checked here.

CREATE TABLE schema_version (
  version integer NOT NULL,
  cluster text NOT NULL        -- the server that gave events.xid; another one after a restore
);

CREATE TABLE events (
  replica text COLLATE "C" NOT NULL,
  n       bigint NOT NULL CHECK (n > 0),
  stream  text COLLATE "C" NOT NULL,
  id      text COLLATE "C" NOT NULL,   -- of the cause
  fenced  boolean NOT NULL,            -- made under a lease that had been lost
  event   text NOT NULL,               -- JSON
  xid     xid8 NOT NULL DEFAULT pg_current_xact_id(),
  PRIMARY KEY (replica, n),
  UNIQUE (replica, id)
);

CREATE INDEX events_by_arrival ON events (xid, replica, n);

-- Times are the database's.
CREATE TABLE leases (
  stream text COLLATE "C" PRIMARY KEY,
  holder text NOT NULL,
  epoch  bigint NOT NULL,
  until  timestamptz NOT NULL
);

-- Store events, those of each replica in order; return those that are fenced off. An event of which
-- fences is true was fenced off before, by a hub that lost it since.
CREATE FUNCTION push(
  replicas text[], numbers bigint[], streams text[], ids text[], epochs bigint[],
  fences boolean[], texts text[]
) RETURNS TABLE (replica text, n bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
  name text;
  stored bigint;
  wrong record;
BEGIN
  -- Before the first write, which takes the number of this transaction: so the transactions with
  -- events of one replica have numbers in the order of n. Sorted, so that no two wait for each
  -- other.
  FOREACH name IN ARRAY
    CASE WHEN replicas[1] = ALL (replicas) THEN replicas[1:1]
         ELSE ARRAY(SELECT DISTINCT unnest(replicas) ORDER BY 1) END
  LOOP
    PERFORM pg_advisory_xact_lock('events'::regclass::oid::integer, hashtext(name));
  END LOOP;

  -- A claim of these streams waits until this transaction has ended, or is seen here.
  IF cardinality(array_remove(epochs, NULL)) > 0 THEN
    PERFORM FROM leases WHERE stream = ANY (streams) ORDER BY stream FOR SHARE;
  END IF;

  INSERT INTO events (replica, n, stream, id, fenced, event)
  SELECT sent.replica, sent.n, sent.stream, sent.id,
         sent.is_fenced OR EXISTS (
           SELECT FROM leases
           WHERE leases.stream = sent.stream AND leases.epoch > sent.epoch),
         sent.event
  FROM unnest(replicas, numbers, streams, ids, epochs, fences, texts)
       AS sent (replica, n, stream, id, epoch, is_fenced, event)
  ON CONFLICT (replica, n) DO NOTHING;
  GET DIAGNOSTICS stored = ROW_COUNT;

  SELECT sent.replica, sent.n INTO wrong
  FROM unnest(replicas, numbers) AS sent (replica, n)
  WHERE sent.n > 1 AND NOT EXISTS (
    SELECT FROM events WHERE events.replica = sent.replica AND events.n = sent.n - 1)
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'a gap before event % of %', wrong.n, wrong.replica USING ERRCODE = 'HF001';
  END IF;

  IF stored < cardinality(numbers) THEN
    SELECT sent.replica, sent.n INTO wrong
    FROM unnest(replicas, numbers, ids) AS sent (replica, n, id)
    JOIN events ON events.replica = sent.replica AND events.n = sent.n AND events.id <> sent.id
    ORDER BY sent.replica, sent.n LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'another event % of %', wrong.n, wrong.replica
        USING ERRCODE = 'HF002', DETAIL = wrong.replica || ' ' || wrong.n;
    END IF;
  ELSIF cardinality(array_remove(epochs, NULL)) = 0 AND NOT true = ANY (fences) THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT events.replica, events.n
    FROM unnest(replicas, numbers) AS sent (replica, n)
    JOIN events ON events.replica = sent.replica AND events.n = sent.n AND events.fenced
    ORDER BY 1, 2;
END $$;

-- Take a lease, or renew the one with this epoch. Return its epoch; 0 if another holder has it, with
-- that holder and the seconds left.
CREATE FUNCTION claim(wanted text, claimant text, seconds double precision, own_epoch bigint)
RETURNS TABLE (epoch bigint, holder text, left_s double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
  time_now timestamptz;
  -- By the clock, so that a hub restored from a backup does not give an epoch twice.
  next_epoch bigint := extract(epoch FROM clock_timestamp()) * 1000;
  kept leases;
BEGIN
  INSERT INTO leases (stream, holder, epoch, until) VALUES (wanted, '', 0, 'epoch')
  ON CONFLICT (stream) DO NOTHING;
  SELECT * INTO kept FROM leases WHERE stream = wanted FOR UPDATE;
  time_now := clock_timestamp();
  IF (CASE WHEN own_epoch > 0 THEN kept.epoch = own_epoch AND kept.holder = claimant
           ELSE kept.until <= time_now OR kept.holder = claimant END)
  THEN
    RETURN QUERY
      UPDATE leases SET
        holder = claimant,
        epoch = CASE WHEN own_epoch > 0 THEN own_epoch
                     ELSE greatest(kept.epoch + 1, next_epoch) END,
        until = time_now + seconds * interval '1 second'
      WHERE stream = wanted
      RETURNING epoch, holder, seconds;
  ELSE
    RETURN QUERY SELECT 0::bigint, kept.holder,
      greatest(0, extract(epoch FROM kept.until - time_now))::double precision;
  END IF;
END $$;

-- Give up the lease with this epoch, if it is the current one.
CREATE FUNCTION release(wanted text, own_epoch bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
  UPDATE leases SET until = 'epoch' WHERE stream = wanted AND epoch = own_epoch;
$$;

REVOKE EXECUTE ON FUNCTION
  push(text[], bigint[], text[], text[], bigint[], boolean[], text[]),
  claim(text, text, double precision, bigint),
  release(text, bigint)
FROM PUBLIC;

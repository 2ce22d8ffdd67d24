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
-- fences is true was fenced off before, by a hub that lost it since. Epoch 0 is no lease.
CREATE FUNCTION push(
  replicas text[], numbers bigint[], streams text[], ids text[], epochs bigint[],
  fences boolean[], texts text[]
) RETURNS TABLE (replica text, n bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
  name text;
  known_id text;
  is_fenced boolean;
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
  IF 0 <> ANY (epochs) THEN
    PERFORM FROM leases WHERE stream = ANY (streams) ORDER BY stream FOR SHARE;
  END IF;

  FOR i IN 1 .. cardinality(numbers) LOOP
    replica := replicas[i];
    n := numbers[i];
    is_fenced := fences[i] OR epochs[i] > 0 AND EXISTS (
      SELECT FROM leases WHERE leases.stream = streams[i] AND leases.epoch > epochs[i]);
    INSERT INTO events (replica, n, stream, id, fenced, event)
    VALUES (push.replica, push.n, streams[i], ids[i], is_fenced, texts[i])
    ON CONFLICT (replica, n) DO NOTHING;
    IF NOT FOUND THEN
      SELECT id, fenced INTO known_id, is_fenced
      FROM events WHERE events.replica = push.replica AND events.n = push.n;
      IF known_id <> ids[i] THEN
        RAISE EXCEPTION 'another event % of %', n, replica
          USING ERRCODE = 'HF002', DETAIL = replica || ' ' || n;
      END IF;
    ELSIF n > 1 AND (i = 1 OR replicas[i - 1] <> replica OR numbers[i - 1] <> n - 1)
      AND NOT EXISTS (
        SELECT FROM events WHERE events.replica = push.replica AND events.n = push.n - 1)
    THEN
      RAISE EXCEPTION 'a gap before event % of %', n, replica USING ERRCODE = 'HF001';
    END IF;
    IF is_fenced THEN
      RETURN NEXT;
    END IF;
  END LOOP;
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

-- record_tick at 543ddd7
-- {"name": "text", "taken": "integer", "dropped": "integer"}
INSERT INTO {s}.ticks AS t (name, last_at, taken, dropped)
VALUES (:name, clock_timestamp(), :taken, :dropped)
ON CONFLICT (name) DO UPDATE SET last_at = EXCLUDED.last_at, taken = t.taken + EXCLUDED.taken, dropped = t.dropped + EXCLUDED.dropped
RETURNING 1

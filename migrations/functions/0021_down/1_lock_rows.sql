-- Locks each reminder's row of `due`, as every other move does, and then its own row; each kind in the order of ids, so that
-- two callers cannot deadlock. What was revived while we waited has a row of `due` that the first look did not see: nobody
-- can revive it again while we hold the other row.
CREATE OR REPLACE FUNCTION {s}.lock_rows(wanted uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $function$
DECLARE
    held uuid[];
BEGIN
    held := ARRAY(SELECT d.id FROM {s}.due d WHERE d.id = ANY (wanted) ORDER BY d.id FOR NO KEY UPDATE);
    PERFORM 1 FROM {s}.reminders r WHERE r.id = ANY (wanted) ORDER BY r.id FOR NO KEY UPDATE;
    PERFORM 1 FROM {s}.due d WHERE d.id = ANY (wanted) AND d.id <> ALL (held) ORDER BY d.id FOR NO KEY UPDATE;
END $function$;

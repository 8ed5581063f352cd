-- Locks each reminder's row of `due`, as every other move does, and then its own row; each kind in the order of ids, so that
-- two callers cannot deadlock. What was revived while we waited has a row of `due` that the first look did not see, and that
-- another caller may hold who waits for ours: to wait for it now would be the wrong order. All is let go, and taken again.
CREATE OR REPLACE FUNCTION {s}.lock_rows(wanted uuid[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $function$
DECLARE
    held uuid[];
BEGIN
    IF cardinality(wanted) = 1 THEN
        -- Nobody ends one that lives, or revives it, while we hold its row of `due`: there is nothing to let go.
        PERFORM 1 FROM {s}.due d WHERE d.id = wanted[1] FOR NO KEY UPDATE;
        IF FOUND THEN
            PERFORM 1 FROM {s}.reminders r WHERE r.id = wanted[1] FOR NO KEY UPDATE;
            RETURN;
        END IF;
    END IF;
    LOOP
        BEGIN
            held := ARRAY(SELECT d.id FROM {s}.due d WHERE d.id = ANY (wanted) ORDER BY d.id FOR NO KEY UPDATE);
            PERFORM 1 FROM {s}.reminders r WHERE r.id = ANY (wanted) ORDER BY r.id FOR NO KEY UPDATE;
            -- Nobody can revive any more of them while we hold their own rows.
            IF NOT EXISTS (SELECT FROM {s}.due d WHERE d.id = ANY (wanted) AND d.id <> ALL (held)) THEN
                RETURN;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'RM000';
        EXCEPTION WHEN SQLSTATE 'RM000' THEN
            NULL;
        END;
    END LOOP;
END $function$;

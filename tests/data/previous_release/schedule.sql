-- schedule at 543ddd7
-- {"rows": "json"}
SELECT id::text FROM {s}.schedule_rows(:rows) AS id

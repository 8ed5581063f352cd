-- schedule_existing at 543ddd7
-- {"rows": "json"}
SELECT asked::text, conflict, reminder_id::text, delivery_key, due_at, status, version FROM {s}.scheduled_before(:rows)

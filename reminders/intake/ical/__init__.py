"""Calendars (iCalendar, RFC 5545) into the ledger.

The map: `content_lines` makes numbered lines of a file's bytes, `components` their tree, `values` what single values mean,
`zones` and `vtimezone` where wall times are, `alarms` and `events` checked events, `turns` when they happen, `asking` which
reminders they ask for, `comparing` what has changed since the last import, `writing` brings that into the ledger.
"""

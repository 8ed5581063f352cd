"""Files of reminders into the ledger.

The map: `lines` gives physical lines, `csv_records` and `jsonl_records` make records of them, `columns` and `checking`
requests, `writing` commits them batch by batch, `importing` drives all of it, `rejects_file` and `progress` tell of it.
"""

"""The doctor: what is wrong with an installation, and how it is mended. One file per subject.

check.py        what a check and a finding are          examine.py    all checks, and one look with them
installed.py    Python, libraries, zone data            settings.py   time-outs, secrets, channels
server.py       Postgres                                tables.py     the ledger's tables and rows
broker.py       Redis                                   lines.py      workers, beat, the Procfile
start.py        what every process asks when it starts  synthetic.py  one reminder through the whole path
"""

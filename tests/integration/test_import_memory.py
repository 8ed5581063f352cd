"""Memory does not grow with the file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.import_files import count, csv_file

SCRIPT = """
import sys
from reminders.cli.import_file import import_
import_.main(["--json", sys.argv[1]], standalone_mode=False)
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(line.split()[1])
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_ten_times_the_rows_need_no_more_memory(services, database, tmp_path):
    def peak_kb(rows):
        path = csv_file(tmp_path / f"{rows}.csv", rows)
        environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, path], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout.splitlines()[-1])

    few = peak_kb(10_000)
    many = peak_kb(100_000)
    assert count(database) == 100_000
    # Kept, 90,000 requests would be 100 MB.
    assert many - few < 8_000

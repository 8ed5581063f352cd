"""A supervised process imports what its own command needs, and no other program's."""

import os
import subprocess
import sys

import pytest

TOLD = """
import sys
from reminders import supervised
sys.argv = ["supervised", "-A", "reminders", *sys.argv[1:]]
try:
    supervised.main()
except SystemExit as ended:
    print(ended.code, "flower" in sys.modules, "tornado" in sys.modules)
"""


@pytest.mark.parametrize(
    ("command", "told"), [("worker", "0 False False"), ("beat", "0 False False"), ("flower", "0 True True")]
)
def test_only_flower_imports_flower(command, told):
    environ = {**os.environ, "REDIS_URL": "redis://127.0.0.1:1/0", "DATABASE_URL": "postgresql://127.0.0.1:1/x"}
    argv = [sys.executable, "-c", TOLD, command, "--help"]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1] == told, done.stderr
    assert f"{command} [OPTIONS]" in done.stdout

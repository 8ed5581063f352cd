"""The yardstick: a Celery task that only posts, with `acks_late` and no ledger. Used by `bare_celery.py`.

python -m bare_app COUNT URL        puts COUNT messages on the queue
"""

from __future__ import annotations

import os
import sys
import threading

import requests
from celery import Celery

app = Celery("bare", broker=os.environ["BARE_BROKER"], set_as_current=False)
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_pool_limit=64,
    broker_transport_options={"max_connections": 200},
    worker_redirect_stdouts=False,
)
_local = threading.local()
BODY = b'{"order": 1, "note": "a line of some forty characters, as in life", "user": "user-1"}'


@app.task(name="bare.post")
def post(url: str, key: str) -> int:
    session = getattr(_local, "session", None)
    if session is None:
        session = _local.session = requests.Session()
    return int(session.post(url, data=BODY, headers={"idempotency-key": key}, timeout=10).status_code)


if __name__ == "__main__":
    for n in range(int(sys.argv[1])):
        post.delay(sys.argv[2], f"key-{n:040d}")

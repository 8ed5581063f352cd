"""Tokens of caps, in Redis: true across workers, taken right before a claim, for all caps of one message at once.

What is there may vanish at any moment, and no more is sent for it than the caps allow:

- A bucket that is missing (Redis was emptied, or nothing was sent for an hour) holds one token, and fills at its rate.
- A call's place under a cap on calls ends by itself with the claim it was taken for.
- While Redis cannot be asked, nothing that is capped is sent.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import redis

from reminders.broker.link import BrokerAway, Link
from reminders.celery_options import KEY_PREFIX
from reminders.domain.turns import KnownCap, Refused, bucket_size
from reminders.settings import Settings

logger = logging.getLogger(__name__)

KEPT_FOR = 3600
"""Seconds for which a bucket that nobody asks is remembered, at least until it is full."""
AWAY_AGAIN = 5.0
"""Seconds after which what could not be counted is tried again."""
BELIEVED_AWAY = 1.0
"""Seconds for which a Redis that failed is not asked again: each thread would wait for it in turn."""
CALLS_AGAIN = 2.0
"""Seconds after which what found as many calls open as there may be is tried again, unless a call's end wakes it before."""

# KEYS: for each cap its bucket and its open calls. ARGV: who asks, for how many seconds, and for each cap tokens a second,
# the bucket's size, and calls at once; 0 is uncapped. The clock is Redis's own. Either all caps give, or none is touched
# but by the turn that was refused, which is queued: each refused one is told another time, spaced by the rate.
TAKE = """
local t = redis.call('TIME')
local now = tonumber(t[1]) + tonumber(t[2]) / 1000000
local left = {}
for i = 1, #KEYS / 2 do
  local bucket, calls = KEYS[2 * i - 1], KEYS[2 * i]
  local rate, size, most = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  if most > 0 then
    redis.call('ZREMRANGEBYSCORE', calls, '-inf', now)
    if redis.call('ZCARD', calls) >= most and not redis.call('ZSCORE', calls, ARGV[1]) then
      return {i, '%(calls_again)s', '0'}
    end
  end
  if rate > 0 then
    local had = redis.call('HMGET', bucket, 'tokens', 'at', 'queue')
    local tokens = 1
    if had[1] then tokens = tonumber(had[1]) + math.max(0, now - tonumber(had[2])) * rate end
    tokens = math.min(size, tokens)
    if tokens < 1 then
      local turn = math.max(now + (1 - tokens) / rate, tonumber(had[3] or '0'))
      redis.call('HSET', bucket, 'tokens', tostring(tokens), 'at', string.format('%%.6f', now), 'queue', string.format('%%.6f', turn + 1 / rate))
      redis.call('EXPIRE', bucket, math.ceil(math.max(%(kept_for)d, 2 * size / rate)))
      return {i, string.format('%%.6f', turn - now), string.format('%%.6f', (1 - tokens) / rate)}
    end
    left[i] = tokens
  end
end
for i = 1, #KEYS / 2 do
  local rate, size, most = tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2])
  if left[i] then
    redis.call('HSET', KEYS[2 * i - 1], 'tokens', tostring(left[i] - 1), 'at', string.format('%%.6f', now))
    redis.call('EXPIRE', KEYS[2 * i - 1], math.ceil(math.max(%(kept_for)d, 2 * size / rate)))
  end
  if most > 0 then
    redis.call('ZADD', KEYS[2 * i], now + tonumber(ARGV[2]), ARGV[1])
    redis.call('EXPIRE', KEYS[2 * i], math.ceil(tonumber(ARGV[2]) + 60))
  end
end
return {0, '0', '0'}
""" % {"calls_again": CALLS_AGAIN, "kept_for": KEPT_FOR}  # noqa: UP031 - braces are Lua's

# ARGV: who, and 1 where the tokens go back too, since no claim was taken for them.
GIVE_BACK = """
for i = 1, #KEYS / 2 do
  redis.call('ZREM', KEYS[2 * i], ARGV[1])
  if ARGV[2] == '1' and redis.call('HEXISTS', KEYS[2 * i - 1], 'tokens') == 1 then
    redis.call('HINCRBYFLOAT', KEYS[2 * i - 1], 'tokens', 1)
  end
end
return 0
"""
_HASHES = {script: hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest() for script in (TAKE, GIVE_BACK)}


class RedisTokens:
    """Implements `reminders.pipeline.admission.Tokens`. Thread-safe; one round trip at a time."""

    def __init__(self, settings: Settings) -> None:
        self._link = Link(settings)
        self._away_until = float("-inf")

    def take(self, caps: Sequence[KnownCap], holder: UUID, seconds: float) -> Refused | None:
        """Take a token, and a place for a call of at most `seconds`, under each cap, or nothing; who refused, if one did.

        Said again by the same `holder` it takes another token, but no other place.
        """
        numbers = [
            number
            for cap in caps
            for number in (
                cap.per_second or 0,
                bucket_size(cap.per_second, cap.burst) if cap.per_second else 0,
                cap.concurrent or 0,
            )
        ]
        try:
            place, wait, token_in = self._run(TAKE, caps, [str(holder), seconds, *numbers])
        except BrokerAway as error:
            logger.warning("tokens.away: what is capped waits: %s", str(error).partition("\n")[0])
            return Refused(caps[0].id, AWAY_AGAIN)
        return Refused(caps[place - 1].id, float(wait), float(token_in)) if place else None

    def give_back(self, caps: Sequence[KnownCap], holder: UUID, *, unused: bool) -> None:
        """The call is over; or, `unused`, none was made, and the tokens go back. Never raises: places end by themselves."""
        if not unused and all(cap.concurrent is None for cap in caps):
            return
        try:
            self._run(GIVE_BACK, caps, [str(holder), int(unused)])
        except BrokerAway as error:
            logger.warning("tokens.not_given_back: %s", str(error).partition("\n")[0])

    def close(self) -> None:
        self._link.close()

    def _run(self, script: str, caps: Sequence[KnownCap], arguments: list[Any]) -> Any:
        if time.monotonic() < self._away_until:
            raise BrokerAway("it failed a moment ago")
        keys = [f"{KEY_PREFIX}cap:{cap.id}:{part}" for cap in caps for part in ("tokens", "calls")]
        try:
            with self._link.redis() as client:
                try:
                    return client.evalsha(_HASHES[script], len(keys), *keys, *arguments)
                except redis.exceptions.NoScriptError:
                    # A Redis that was restarted or emptied of scripts; this puts it there again.
                    return client.eval(script, len(keys), *keys, *arguments)
        except BrokerAway:
            self._away_until = time.monotonic() + BELIEVED_AWAY
            raise

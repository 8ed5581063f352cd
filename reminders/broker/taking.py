"""Taking several messages at once: popped and noted as unacknowledged in one step of Redis's own.

kombu pops one message, and notes it in a second round trip; a worker that is killed in between has lost it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# KEYS: kombu's index and hash of what is not acknowledged, and the queues; ARGV: how many messages at most, and the time.
# The queues are asked in turn, each for half of what waits there at the most: the rest is for other workers, which wake a
# moment later, so that none holds all there is while others idle, or dies with it. What cannot be read is handed on without a note, for the reader to drop. The note is kombu's
# own: the message, its exchange and its routing key.
TAKE = """
local function note(raw)
  local properties = cjson.decode(raw).properties
  local tag, way = properties.delivery_tag, properties.delivery_info
  if type(tag) ~= 'string' or tag == '' then error('no tag') end
  local noted = '[' .. raw .. ',' .. cjson.encode(way.exchange) .. ',' .. cjson.encode(way.routing_key) .. ']'
  redis.call('ZADD', KEYS[1], ARGV[2], tag)
  redis.call('HSET', KEYS[2], tag, noted)
  return tag
end
local room, taken, share, found = tonumber(ARGV[1]), {}, {}, true
for i = 3, #KEYS do share[i] = math.ceil(redis.call('LLEN', KEYS[i]) / 2) end
while room > 0 and found do
  found = false
  for i = 3, #KEYS do
    local raw = room > 0 and share[i] > 0 and redis.call('RPOP', KEYS[i])
    if raw then
      found, room, share[i] = true, room - 1, share[i] - 1
      local read, tag = pcall(note, raw)
      taken[#taken + 1] = {i - 2, read and tag or '', raw}
    end
  end
end
return taken
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """A message as it was on its queue; `tag` is what it is noted under, empty if it is not."""

    queue: str
    tag: bytes
    raw: bytes


def ask(pipe: Any, queues: Sequence[str], room: int, *, unacked: str, index: str, prefix: str) -> None:
    """Add to `pipe` what takes up to `room` messages; one reply."""
    keys = [prefix + key for key in (index, unacked, *queues)]
    pipe.execute_command("EVAL", TAKE, len(keys), *keys, room, time.time())


def taken(reply: Sequence[Any], queues: Sequence[str]) -> list[Taken]:
    """What the reply to `ask` says, in the order of taking."""
    return [Taken(queues[number - 1], tag, raw) for number, tag, raw in reply]

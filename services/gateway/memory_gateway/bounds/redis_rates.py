"""Token buckets that several gateways share through Redis."""

import logging
import time

from redis.asyncio import Redis
from redis.exceptions import RedisError

from memory_gateway.bounds.rates import LocalRates, Rate

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.25
REST_SECONDS = 5.0
"""How long Redis is left alone after it failed: no call should wait for it in vain each time."""
TAKE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local moment = math.max(tonumber(redis.call('GET', KEYS[1])) or now, now)
local missing = moment - now - tonumber(ARGV[2])
if missing > 0 then return tostring(missing) end
moment = moment + tonumber(ARGV[1])
local lasts = math.ceil((moment - now) * 1000) + 1
redis.call('SET', KEYS[1], string.format('%.6f', moment), 'PX', lasts)
return '0'
"""
"""GCRA as in `LocalRates`, by the clock of Redis, which all gateways share."""


class RedisRates:
    """While Redis does not answer, each gateway counts for itself."""

    def __init__(self, url: str, rate: Rate) -> None:
        self._redis = Redis.from_url(  # pyright: ignore[reportUnknownMemberType]  its **kwargs
            url,
            socket_timeout=PATIENCE_SECONDS,
            socket_connect_timeout=PATIENCE_SECONDS,
            decode_responses=True,
        )
        self._script = self._redis.register_script(TAKE)
        self._rate = rate
        self._local = LocalRates(rate)
        self._rests_until = 0.0

    async def take(self, name: str) -> float:
        if time.monotonic() < self._rests_until:
            return self._local.take_now(name)
        try:
            arguments = [self._rate.interval, self._rate.tolerance]
            return float(await self._script(keys=[f"memory-bridge:rate:{name}"], args=arguments))
        except (RedisError, OSError) as error:
            logger.warning("rates are counted here: Redis failed (%s)", type(error).__name__)
            self._rests_until = time.monotonic() + REST_SECONDS
            return self._local.take_now(name)

    async def close(self) -> None:
        await self._redis.aclose()

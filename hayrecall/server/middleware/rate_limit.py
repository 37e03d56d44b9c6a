"""One key cannot take everything."""

import math
import time

from starlette.types import ASGIApp, Receive, Scope, Send

from hayrecall.server.errors import ApiError
from hayrecall.server.request_context import current_request

_MINUTE = 60.0


class RateLimit:
    """
    Allows each key so many requests a minute, in bursts of up to that many (a token bucket).

    The count is this process's own: N replicas allow N times as much.
    """

    def __init__(self, app: ASGIApp, per_minute: int) -> None:
        """
        Guard an application; it stands behind `Authentication`.

        :param app: What is guarded.
        :param per_minute: Requests per key and minute.
        """
        self.app = app
        self.per_minute = per_minute
        self._left: dict[str, tuple[float, float]] = {}  # requests left, and when that was so

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 429, or pass on."""
        if scope["type"] == "http" and (wait := self._wait_seconds()):
            message = f"More than {self.per_minute} requests a minute; wait for {wait} s."
            refusal = ApiError(429, "rate_limit_exceeded", message, headers={"Retry-After": str(wait)})
            await refusal.response()(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _wait_seconds(self) -> int:
        try:
            key_id = current_request().key.id
        except LookupError:  # an open path
            return 0
        now = time.monotonic()
        left, since = self._left.get(key_id, (float(self.per_minute), now))
        left = min(self.per_minute, left + (now - since) * self.per_minute / _MINUTE)
        if left < 1:
            self._left[key_id] = (left, now)
            return math.ceil((1 - left) * _MINUTE / self.per_minute)
        self._left[key_id] = (left - 1, now)
        return 0

"""Tell an address of the operator's about dead letters."""

import asyncio
from collections.abc import Mapping

import httpx
from haystack import logging
from prometheus_client import Counter

from components.tls import shared_tls_context

logger = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 5.0
_MOST_AT_A_TIME = 20

WEBHOOK_FAILURES = Counter("hayrecall_dead_letter_webhook_failures", "Alerts of dead letters that did not get through")


class Alerts:
    """
    Posts JSON to a webhook, in the background: a slow or broken one delays nothing and loses no turn.

    While too many are on their way, further ones are counted as failed, not queued.
    """

    def __init__(self, url: str | None) -> None:
        """
        Remember the address.

        :param url: Where to post; None = nowhere.
        """
        self._url = url
        self._client = httpx.AsyncClient(verify=shared_tls_context(), timeout=_TIMEOUT_SECONDS)
        self._sending: set[asyncio.Task[None]] = set()

    def tell(self, event: Mapping[str, object]) -> None:
        """
        Post an event and return at once.

        :param event: JSON without user text.
        """
        if self._url is None:
            return
        if len(self._sending) >= _MOST_AT_A_TIME:
            WEBHOOK_FAILURES.inc()
            return
        task = asyncio.create_task(self._post(self._url, event))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Wait for what is on its way; each is bounded."""
        await asyncio.gather(*self._sending)
        await self._client.aclose()

    async def _post(self, url: str, event: Mapping[str, object]) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                (await self._client.post(url, json=dict(event))).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            WEBHOOK_FAILURES.inc()
            logger.warning("the dead-letter webhook failed: {error}", error=type(error).__name__)

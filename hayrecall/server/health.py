"""Is the process alive, and are the parts that it needs?"""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import httpx
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import SecretStr

from components.tls import shared_tls_context
from contracts.errors import TransientError
from hayrecall.server.caller import services_of
from hayrecall.server.metrics import metrics_page
from hayrecall.server.services import Services

_PATIENCE_SECONDS = 2.0
T = TypeVar("T")

_FRESH_SECONDS = 1.0  # both endpoints need no key: asking often costs nothing


class Readiness:
    """Asks every part whether it is there, and remembers the answer for a moment."""

    def __init__(self, services: Services) -> None:
        """
        Ask nothing yet.

        :param services: Where the parts are.
        """
        self._services = services
        self._http = httpx.AsyncClient(verify=shared_tls_context(), timeout=_PATIENCE_SECONDS)
        self._lock = asyncio.Lock()
        self._parts: dict[str, str] = {}
        self._asked_at = -_FRESH_SECONDS

    async def parts(self) -> dict[str, str]:
        """
        Give each part's state.

        :returns: `up` or `down` for `nats`, `outbox`, `qdrant`, `models` and `embedder`.
        """
        async with self._lock:
            if time.monotonic() - self._asked_at >= _FRESH_SECONDS:
                self._parts = await self._ask()
                self._asked_at = time.monotonic()
            return self._parts

    async def close(self) -> None:
        """Release the connections."""
        await self._http.aclose()

    async def _ask(self) -> dict[str, str]:
        services, settings = self._services, self._services.settings
        queue, nats, *others = await asyncio.gather(
            _in_time(services.queue.ready(), {"nats": False, "outbox": False}),
            _in_time(self._has_turns(), otherwise=False),
            _in_time(services.memories.ready(), otherwise=False),
            _in_time(self._answers(settings.llm_base_url, settings.llm_api_key), otherwise=False),
            _in_time(self._answers(settings.embedding_base_url, settings.embedding_api_key), otherwise=False),
        )
        queue["nats"] = queue["nats"] and nats
        answers = queue | dict(zip(("qdrant", "models", "embedder"), others, strict=True))
        return {name: "up" if answer else "down" for name, answer in answers.items()}

    async def _has_turns(self) -> bool:
        """Ask for what waits in the stream: the connection to a frozen server looks like any other."""
        await self._services.queue.depth()
        return True

    async def _answers(self, base_url: str | None, key: SecretStr | None) -> bool:
        """Ask for the list of models: no gateway bills it."""
        headers = {"Authorization": f"Bearer {key.get_secret_value()}"} if key else {}
        try:
            return (await self._http.get(f"{(base_url or '').rstrip('/')}/models", headers=headers)).is_success
        except (httpx.HTTPError, httpx.InvalidURL):
            return False


async def _in_time(answer: Awaitable[T], otherwise: T) -> T:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await answer
    except (TimeoutError, TransientError):
        return otherwise


def health_router() -> APIRouter:
    """Build the routes that monitoring uses; none of them needs a key."""
    router = APIRouter(tags=["operation"])

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    async def alive() -> dict[str, str]:
        """Tell that the process answers."""
        return {"status": "ok"}

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", responses={503: {"description": "At least one part is down; `parts` tells which."}})
    async def ready(request: Request) -> JSONResponse:
        """Tell whether every part answers."""
        parts = await request.app.state.readiness.parts()
        up = all(state == "up" for state in parts.values())
        return JSONResponse({"status": "ready" if up else "degraded", "parts": parts}, 200 if up else 503)

    @router.get("/metrics", include_in_schema=False)
    async def metrics(request: Request) -> Response:
        return await metrics_page(await services_of(request).queue.dead_letters())

    return router

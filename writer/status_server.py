"""Health and metrics of a writer over HTTP."""

import contextlib
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

_SHUTDOWN_SECONDS = 1


def status_application(
    readiness: Callable[[], Awaitable[dict[str, bool]]], refresh_metrics: Callable[[], Awaitable[None]]
) -> Starlette:
    """
    Build the application: `/healthz` (the process runs), `/readyz` (which part is down, 503 if any), `/metrics`.

    :param readiness: Gives each part and whether it is up.
    :param refresh_metrics: Reads what is only known when asked for.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        parts = await readiness()
        return JSONResponse({"ready": all(parts.values()), "parts": parts}, 200 if all(parts.values()) else 503)

    async def metrics(_: Request) -> Response:
        await refresh_metrics()
        return Response(generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])


class StatusServer(uvicorn.Server):
    """uvicorn without its own signal handling, and with a file that says where it listens."""

    def __init__(self, application: Starlette, *, host: str, port: int, ports_file: Path | None = None) -> None:
        """
        Describe the server.

        :param application: What to serve.
        :param host: Address to listen on.
        :param port: Port to listen on; 0 = any free one.
        :param ports_file: Where to write `{"url": …}`.
        """
        super().__init__(
            uvicorn.Config(
                application,
                host=host,
                port=port,
                log_level="warning",
                access_log=False,
                ws="none",
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            )
        )
        self._ports_file = ports_file

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the writer."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then announce the address."""
        await super().startup(sockets)
        if self.started and self._ports_file is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            draft = self._ports_file.with_suffix(".draft")
            draft.write_text(json.dumps({"url": f"http://{host}:{port}"}), encoding="utf-8")
            draft.replace(self._ports_file)

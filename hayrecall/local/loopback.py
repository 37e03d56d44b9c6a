"""Serve an application on this machine only, as a child that another process starts, finds and stops."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from hayrecall.local.data_folder import write_private
from hayrecall.local.parent_death import follow_parent

LOOPBACK = "127.0.0.1"
_SHUTDOWN_SECONDS = 10


def serve(app: ASGIApp, *, port: int, ports_file: Path | None, path: str = "") -> None:
    """
    Serve `app` on loopback until SIGTERM or SIGINT, then finish what is in flight and return.

    The process dies with the thread that started it (Linux), so that a killed parent leaves nothing behind. The
    ports file appears when requests are answered and is gone after a clean end.

    :param app: ASGI application; its lifespan opens and closes what it needs.
    :param port: Port to listen on, 0 for any free one.
    :param ports_file: Where to write `{"url", "pid"}`, atomically; none when not given.
    :param path: What the announced url ends with, such as `/v1`.
    :raises OSError: If the port is taken.
    """
    follow_parent()
    listener = socket.create_server((LOOPBACK, port))
    # asyncio does this for sockets that it makes itself. Without it an answer waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://{LOOPBACK}:{listener.getsockname()[1]}{path}"
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ws="none",
    )
    server = _Server(config, url=url, ports_file=ports_file)
    with listener:
        asyncio.run(server.serve(sockets=[listener]))
    if not server.started:
        sys.exit(1)


class _Server(uvicorn.Server):
    """uvicorn, but a signal ends it with exit code 0, and it says where it listens once it does."""

    def __init__(self, config: uvicorn.Config, *, url: str, ports_file: Path | None) -> None:
        super().__init__(config)
        self._url = url
        self._ports_file = ports_file

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Turn SIGTERM and SIGINT into a clean end; uvicorn's own way raises the signal again afterwards."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, setattr, self, "should_exit", True)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then announce the address."""
        await super().startup(sockets)
        if self.started and self._ports_file is not None:
            self._ports_file.parent.mkdir(parents=True, exist_ok=True)
            write_private(self._ports_file, json.dumps({"url": self._url, "pid": os.getpid()}))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take the announcement back, then stop."""
        if self._ports_file is not None:
            self._ports_file.unlink(missing_ok=True)
        await super().shutdown(sockets)

"""uvicorn, as a process that ends well."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

_GRACE_SECONDS = 30


class UvicornServer(uvicorn.Server):
    """
    Serves an application on a socket until SIGTERM or SIGINT, lets running responses finish, and returns.

    uvicorn's own server raises the signal again at its end, which kills the process: its parent would see a crash.
    """

    def __init__(self, app: FastAPI, *, when_ready: Callable[[], Any]) -> None:
        """
        Configure the server.

        :param app: What to serve.
        :param when_ready: Called once requests are answered.
        """
        config = uvicorn.Config(
            app,
            lifespan="off",  # entered here, so that its errors arrive as they are
            log_config=None,
            access_log=False,  # it would write the tokens of signed links
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        super().__init__(config)
        self._app = app
        self._when_ready = when_ready

    async def serve_on(self, listener: socket.socket) -> None:
        """
        Open the application, serve, and close it; returns after a signal.

        :param listener: A bound socket.
        """
        with self.capture_signals():
            async with self._app.router.lifespan_context(self._app):
                await self.serve([listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and tell."""
        await super().startup(sockets)
        if self.started:
            self._when_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals while serving, and give them back without raising them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

"""A TCP connection to a part, which a test can make slow, silent, senseless, or cut."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Literal
from urllib.parse import urlsplit

Fault = Literal["down", "frozen", "slow", "wrong"]

NONSENSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 19\r\n\r\n<h1>secret-host</h1>"


class FaultyWire:
    """
    Listens on a port of its own and passes bytes on to a part, until `fault` is set.

    `down` refuses connections and cuts those that are open, `frozen` takes everything and passes nothing on, `slow`
    holds each answer back for `delay_seconds`, `wrong` answers everything with a page of HTML.
    """

    def __init__(self, upstream: str, *, delay_seconds: float = 1.0) -> None:
        """
        Listen.

        :param upstream: Address of the part, with scheme.
        :param delay_seconds: How slow is slow.
        """
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname, parts.port)
        self._delay_seconds = delay_seconds
        self._fault: Fault | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._port = 0
        self._do(self._listen())
        self.url = parts._replace(netloc=f"{parts.hostname}:{self._port}").geturl()

    @property
    def fault(self) -> Fault | None:
        """What is wrong; None for nothing."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault | None) -> None:
        self._do(self._become(fault))

    def close(self) -> None:
        """Cut everything and stop listening."""
        self._do(self._become("down"))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _become(self, fault: Fault | None) -> None:
        before, self._fault = self._fault, fault
        if fault == "down" and self._server is not None:
            self._server.close()
            self._server = None
        if fault == "down" or before in ("frozen", "wrong"):  # what was swallowed never comes back in order
            for writer in list(self._open):
                writer.transport.abort()
            await asyncio.sleep(0)
        if self._server is None and fault != "down":
            await self._listen()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            answers, upstream = await asyncio.open_connection(*self._upstream)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, upstream, back=writer))
                both.create_task(self._pass_on(answers, writer))
        except* (OSError, asyncio.IncompleteReadError, _EndError):
            pass
        finally:
            self._open.discard(writer)
            for end in (writer, upstream):
                if end is not None:
                    end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter | None = None
    ) -> None:
        while piece := await reader.read(65536):
            if self._fault == "slow" and back is None:
                await asyncio.sleep(self._delay_seconds)
            if self._fault == "wrong" and back is not None:
                back.write(NONSENSE)
            elif self._fault not in ("frozen", "wrong"):
                writer.write(piece)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
        raise _EndError


class _EndError(Exception):
    """One side closed: the other one goes too."""

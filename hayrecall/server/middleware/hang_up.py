"""A client that hangs up ends its request at once, also before the first byte of the answer."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hayrecall.server.request_context import current_request


class HangUp:
    """
    Cancels the handling of a request whose client is gone, and calls what was to be ended with the request.

    Servers notice a disconnect on their own only while they stream; a plain answer, or the time until the first token,
    would cost its model calls to the end.
    """

    def __init__(self, app: ASGIApp) -> None:
        """
        Watch the requests of an application.

        :param app: What handles them.
        """
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request as long as its client is there."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        gone: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        handling: asyncio.Task[None]
        watching: asyncio.Task[None] | None = None
        answered = False

        async def watch() -> None:
            message = await receive()
            if not gone.done():
                gone.set_result(message)
            if not answered:
                handling.cancel()

        async def watched() -> Message:
            nonlocal watching
            if watching is not None:
                return await asyncio.shield(gone)
            message = await receive()
            if message["type"] == "http.disconnect":
                handling.cancel()
            elif not message.get("more_body", False):
                watching = asyncio.create_task(watch())
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        async def handle() -> None:
            await self.app(scope, watched, noted)

        handling = asyncio.create_task(handle())
        try:
            await handling
        except asyncio.CancelledError:
            if not handling.done():  # the server itself is stopping
                handling.cancel()
                with suppress(asyncio.CancelledError):
                    await handling
                raise
        finally:
            if watching is not None:
                watching.cancel()
            _end()


def _end() -> None:
    with suppress(LookupError):
        for end in current_request().at_end:
            end()

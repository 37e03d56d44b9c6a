"""The HTTP edge: whatever was not foreseen is logged with its traceback, and answered without it."""

from haystack import logging
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hayrecall.server.errors import internal_error

logger = logging.getLogger(__name__)


class LastResort:
    """Answers 500 in OpenAI's shape for an exception that nothing else has handled."""

    def __init__(self, app: ASGIApp) -> None:
        """
        Cover an application.

        :param app: What may raise.
        """
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; a response that has begun can only be cut."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception as error:
            logger.exception("a request failed unforeseen", exc_info=error)
            if begun:
                raise
            await internal_error().response()(scope, receive, send)

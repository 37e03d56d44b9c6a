"""Requests have a largest size, whether they declare it or not."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hayrecall.server.errors import ApiError


class BodyLimit:
    """Refuses a body over the limit with 413: by its declared length, or as soon as it grows too long."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        """
        Guard an application.

        :param app: What is guarded.
        :param max_bytes: Largest body.
        """
        self.app = app
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 413, or pass on and count."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = ApiError(413, "request_too_large", f"The body is larger than {self.max_bytes} bytes.")
        if self._declared(scope) > self.max_bytes:
            await refusal.response()(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise refusal  # an HTTPException: the routes' own error handling answers it
            return message

        await self.app(scope, counted, send)

    @staticmethod
    def _declared(scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                return int(value)
        return 0

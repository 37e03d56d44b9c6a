"""Read the body of a request up to a limit."""

from starlette.requests import Request


async def read_body(request: Request, *, largest_bytes: int) -> bytes | None:
    """
    Read a body, and stop as soon as it is too large.

    :param request: Whose body.
    :param largest_bytes: Most that is taken.
    :returns: The body; None if it is larger.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > largest_bytes:
            return None
    return bytes(body)

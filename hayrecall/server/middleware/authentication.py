"""No key, no answer."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from hayrecall.server.api_keys import ApiKeys
from hayrecall.server.errors import ApiError
from hayrecall.server.request_context import RequestContext, enter_request

# Told apart by their exact path: monitoring has no key, people's pages have a signed link and a session of their own.
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
SIGNED_PREFIXES = ("/memories", "/questions")


class Authentication:
    """Lets only requests with a valid API key pass, and notes the key for everything behind it."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        """
        Guard an application.

        :param app: What is guarded.
        :param keys: The keys that are valid.
        """
        self.app = app
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass on."""
        if scope["type"] == "http" and not _is_open(scope["path"]):
            key = self.keys.find(_shown(scope))
            if key is None:
                message = "Give a valid API key: `Authorization: Bearer …`."
                refusal = ApiError(401, "invalid_api_key", message, headers={"WWW-Authenticate": "Bearer"})
                await refusal.response()(scope, receive, send)
                return
            enter_request(RequestContext(key, Headers(scope=scope)))
        await self.app(scope, receive, send)


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or any(path == prefix or path.startswith(f"{prefix}/") for prefix in SIGNED_PREFIXES)


def _shown(scope: Scope) -> str:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) != 1:
        return ""
    scheme, _, key = values[0].decode("latin-1").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""

"""Every failure that a client sees: OpenAI's shape, a sentence of ours, nothing from inside."""

from typing import Any

import openai
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from haystack import logging
from starlette.exceptions import HTTPException as AnyHTTPException

from components.model_call import model_error
from contracts.errors import (
    EmbedderUnavailableError,
    HayrecallError,
    ModelUnavailableError,
    QueueUnavailableError,
    StoreUnavailableError,
    TransientError,
    TurnError,
)

logger = logging.getLogger(__name__)

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_SERVER_ERROR = 500
_OUTAGES = (
    (ModelUnavailableError, "model_unavailable", "A language model is not available right now; please try again."),
    (EmbedderUnavailableError, "embedder_unavailable", "Search is not available right now; please try again."),
    (StoreUnavailableError, "store_unavailable", "The store is not available right now; please try again."),
    (QueueUnavailableError, "queue_unavailable", "The queue is not available right now; please try again."),
    (TransientError, "unavailable", "A part of the service is not available right now; please try again."),
)
_PLAIN = {
    400: ("invalid_request", "The request could not be read."),
    404: ("not_found", "There is nothing under this address."),
    405: ("method_not_allowed", "This address does not take this method."),
}


class ApiError(HTTPException):
    """An answer other than the expected one; raised anywhere between the socket and the pipeline."""

    def __init__(self, status_code: int, code: str, message: str, *, headers: dict[str, str] | None = None) -> None:
        """
        Keep what the client is told.

        :param status_code: HTTP status.
        :param code: Stable name that programs compare with.
        :param message: Sentence for a person; holds nothing from inside.
        :param headers: Further response headers.
        """
        super().__init__(status_code, message, headers)
        self.code = code

    def body(self) -> dict[str, Any]:
        """Give the error in OpenAI's shape."""
        kind = "server_error" if self.status_code >= _SERVER_ERROR else "invalid_request_error"
        kind = _TYPES.get(self.status_code, kind)
        return {"error": {"message": self.detail, "type": kind, "param": None, "code": self.code}}

    def response(self) -> JSONResponse:
        """Give the error as a response."""
        return JSONResponse(self.body(), self.status_code, dict(self.headers or {}))


def internal_error() -> ApiError:
    """Give the answer to a fault of our own; its cause is in the log, under the request id of the response."""
    return ApiError(500, "internal_error", "Something went wrong on our side.")


def described(error: BaseException) -> ApiError:
    """
    Tell a client about a failed run.

    :param error: What a pipeline or a store raised; Haystack's wrapping is looked through.
    :returns: 503 for an outage, 502 for a model's fault, 500 for ours; never a word of the original.
    """
    cause = _own(error)
    for outage, code, message in _OUTAGES:
        if isinstance(cause, outage):
            return ApiError(503, code, message, headers={"Retry-After": "1"})
    if isinstance(cause, TurnError):
        return ApiError(502, "model_failed", "A language model gave no usable answer to this request.")
    return internal_error()


def _own(error: BaseException) -> BaseException:
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, HayrecallError):
            return found
        if isinstance(found, openai.OpenAIError):
            return model_error(found)
        found = found.__cause__
    return error


def install(app: FastAPI) -> None:
    """Answer every failure of an application's routes in OpenAI's shape."""

    @app.exception_handler(AnyHTTPException)
    async def _http(request: Request, error: AnyHTTPException) -> JSONResponse:
        return _shaped(request, error).response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"] if part != "body") or "the body"
        return ApiError(400, "invalid_request", f"`{place}`: {fault['msg']}").response()

    @app.exception_handler(HayrecallError)
    async def _failed(request: Request, error: HayrecallError) -> JSONResponse:
        logger.warning("{path} failed: {reason}", path=_route(request), reason=f"{type(error).__name__}: {error}")
        return described(error).response()


def _shaped(request: Request, error: AnyHTTPException) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if error.status_code >= _SERVER_ERROR:
        # hayhooks puts the text of what was raised into the detail.
        logger.error("{path} failed", path=_route(request), exc_info=error.__cause__ or error)
        return internal_error()
    if error.status_code == 404 and request.url.path == "/v1/chat/completions":  # noqa: PLR2004
        return ApiError(404, "model_not_found", "There is no such model here; `GET /v1/models` lists what there is.")
    code, message = _PLAIN.get(error.status_code, ("invalid_request", "The request was refused."))
    return ApiError(error.status_code, code, message, headers=dict(error.headers or {}))


def _route(request: Request) -> str:
    """Name the route without ids or query, which may be personal."""
    return str(getattr(request.scope.get("route"), "path", "a request"))

"""Routes that people use in a browser: their failures are pages, too."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from haystack import logging
from starlette.exceptions import HTTPException

from contracts.errors import HayrecallError

logger = logging.getLogger(__name__)

BAD_FORM = 400
_OUTAGE = 503


def page_route(failure: Callable[[Request, int], Response]) -> type[APIRoute]:
    """
    Give the class of routes whose failures are told by a page.

    :param failure: Makes the page, in the language of whoever asks, from the request and an HTTP status: 400 for a form
        that cannot be read, 503 for an outage, else what the route itself refused with.
    :returns: For `route_class` of a router.
    """

    class PageRoute(APIRoute):
        """Answers failures with a page too."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handled(request: Request) -> Response:
                try:
                    return await handle(request)
                except RequestValidationError:
                    return failure(request, BAD_FORM)
                except HTTPException as error:
                    return failure(request, error.status_code)
                except HayrecallError as error:
                    reason = f"{type(error).__name__}: {error}"
                    logger.warning("the page {path} failed: {reason}", path=self.path, reason=reason)
                    return failure(request, _OUTAGE)

            return handled

    return PageRoute

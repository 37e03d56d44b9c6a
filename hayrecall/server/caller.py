"""Who a request comes from, for routes."""

from typing import cast

from starlette.requests import Request

from hayrecall.server.identity import Identity
from hayrecall.server.request_context import current_request
from hayrecall.server.services import Services


def services_of(request: Request) -> Services:
    """Give the services of the application that a request came to."""
    return cast("Services", request.app.state.services)


def caller(request: Request) -> Identity:
    """
    Tell who asks.

    :raises ApiError: 401, if the request claims to come from somebody, and that is not true.
    """
    current = current_request()
    return services_of(request).identities.identify(current.key, current.headers)

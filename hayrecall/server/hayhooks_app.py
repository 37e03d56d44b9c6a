"""hayhooks without its doors: of its application, only the chat endpoint and the list of models are served."""

import os
from collections.abc import Iterator
from typing import Any, cast

# Read while hayhooks is imported. Nothing is deployed from a folder, nothing is traced into memory or shown on a
# dashboard, no page of another origin may call, and nobody is told about our users.
os.environ |= {
    "HAYHOOKS_PIPELINES_DIR": "",
    "HAYHOOKS_DURABLE_MODE": "false",
    "HAYHOOKS_TRACING_ENABLED": "false",
    "HAYHOOKS_TRACING_INCLUDE_HAYSTACK_SPANS": "false",
    "HAYHOOKS_MONITORING_ENABLED": "false",
    "HAYHOOKS_CHAINLIT_ENABLED": "false",
    "HAYHOOKS_CORS_ALLOW_ORIGINS": "[]",
    "HAYSTACK_TELEMETRY_ENABLED": "false",
    "MEM0_TELEMETRY": "False",
}

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi_openai_compat import ChatRequest  # type: ignore[import-untyped]
from hayhooks import create_app
from hayhooks.server.pipelines.registry import registry
from hayhooks.server.routers.openai import create_openai_router
from starlette.routing import BaseRoute

__all__ = ["create_hayhooks_app", "served_paths"]

# Clients in typed languages send what they leave open as null; the library takes it everywhere but here.
ChatRequest.model_fields["stream"].annotation = bool | None
ChatRequest.model_rebuild(force=True)

WANTED = frozenset({"/v1/chat/completions", "/v1/models"})


def create_hayhooks_app() -> FastAPI:
    """
    Build hayhooks' application and take away every route but the wanted ones: most need no key, some run code.

    :returns: The application; `state.pipeline_registry` is its own, where hayhooks' is the process's.
    """
    app: FastAPI = create_app()
    app.state.pipeline_registry = type(registry)()
    app.router.routes.clear()
    app.include_router(create_openai_router(app.state.pipeline_registry))
    _keep_wanted(app.router)
    app.docs_url = app.redoc_url = None
    app.setup()  # the OpenAPI document, which `clear` took away as well
    # A page of another origin has no business here.
    app.user_middleware = [layer for layer in app.user_middleware if cast("Any", layer.cls) is not CORSMiddleware]
    return app


def served_paths(app: FastAPI) -> set[str]:
    """List the paths of all routes, through every router that was included."""
    return {path for router in _routers(app.router) for route in router.routes if (path := _path(route))}


def _keep_wanted(router: APIRouter) -> None:
    for inner in _routers(router):
        inner.routes[:] = [route for route in inner.routes if _inner(route) or _path(route) in WANTED]


def _routers(router: APIRouter) -> Iterator[APIRouter]:
    yield router
    for route in list(router.routes):
        if inner := _inner(route):
            yield from _routers(inner)


def _inner(route: BaseRoute) -> APIRouter | None:
    """Give the router that FastAPI keeps behind an included one."""
    return getattr(route, "original_router", None)


def _path(route: BaseRoute) -> str | None:
    return getattr(route, "path", None)

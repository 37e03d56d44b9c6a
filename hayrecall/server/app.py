"""The server: hayhooks' application with our pipelines, guarded by keys, and the routes around them."""

from hayrecall.server.hayhooks_app import create_hayhooks_app  # isort: skip - sets what hayhooks reads

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Awaitable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace

from fastapi import FastAPI
from hayhooks.server.utils.module_loader import create_pipeline_wrapper_instance, load_pipeline_module
from haystack import logging
from starlette.middleware import Middleware

from components.document_ingestor import DocumentIngestor
from components.pipeline_file import load_pipeline
from components.tracing import configure_tracing, flush_traces
from contracts.errors import ConfigurationError, TransientError
from contracts.manifest import Manifest, PipelineEntry, RunBy
from contracts.settings import Settings
from hayrecall.server import errors
from hayrecall.server.chat_pipeline import ChatPipelineWrapper, ServedPipeline
from hayrecall.server.dead_letter_routes import dead_letter_router
from hayrecall.server.document_routes import document_router
from hayrecall.server.first_use import warm_up_process
from hayrecall.server.health import Readiness, health_router
from hayrecall.server.logs import configure_logs
from hayrecall.server.memory_page.routes import link_router, page_router
from hayrecall.server.memory_routes import memory_router, organization_scope, settings_router, user_scope
from hayrecall.server.middleware.authentication import Authentication
from hayrecall.server.middleware.body_limit import BodyLimit
from hayrecall.server.middleware.hang_up import HangUp
from hayrecall.server.middleware.last_resort import LastResort
from hayrecall.server.middleware.rate_limit import RateLimit
from hayrecall.server.middleware.security_headers import SecurityHeaders
from hayrecall.server.question_routes import ExpertDesk, question_router
from hayrecall.server.services import Services
from hayrecall.server.uvicorn_server import UvicornServer

__all__ = ["create", "run"]

logger = logging.getLogger(__name__)

TASKS_MODEL = "tasks"
_PATIENCE_SECONDS = 10  # for each part that is opened at the start
_THREADS = 64  # asyncio's default, 4 more than there are cores, would let a few slow calls hold up everybody


def create(settings: Settings, manifest: Manifest) -> FastAPI:
    """
    Build the application; nothing is opened before it starts.

    :param settings: Addresses of all parts.
    :param manifest: What is served.
    :raises ConfigurationError: If a pipeline's file is wrong.
    """
    services = Services.build(settings, manifest)
    loaded = {name: load_pipeline(entry) for name, entry in manifest.served().items()}
    wrappers = {
        name: _wrapper(ServedPipeline(entry, loaded[name], services, loaded.get(TASKS_MODEL)))
        for name, entry in manifest.served().items()
    }
    app = create_hayhooks_app()
    app.title, app.description = "Hayrecall", "Chat over an organization's documents that remembers people."
    app.state.services = services
    desks = [ExpertDesk(load_pipeline(entry), services) for entry in _run_by(manifest, "experts")]
    ingestors = [DocumentIngestor(load_pipeline(entry)) for entry in _run_by(manifest, "ingest")]
    app.include_router(health_router())
    for desk in desks:
        app.include_router(question_router(desk))
    for ingestor in ingestors:
        app.include_router(document_router(ingestor))
    app.include_router(dead_letter_router())
    app.include_router(link_router())
    app.include_router(page_router())
    app.include_router(settings_router())
    app.include_router(memory_router("/v1/memories", user_scope))
    app.include_router(memory_router("/v1/organization-memories", organization_scope))
    errors.install(app)
    limits = [Middleware(RateLimit, settings.rate_limit_per_minute)] if settings.rate_limit_per_minute else []
    app.user_middleware += [
        Middleware(SecurityHeaders),
        Middleware(Authentication, services.keys),
        *limits,
        Middleware(BodyLimit, settings.max_body_bytes),
        Middleware(HangUp),
        Middleware(LastResort),
    ]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "hayrecall"))
        async with AsyncExitStack() as opened:
            app.state.readiness = Readiness(services)
            opened.push_async_callback(app.state.readiness.close)
            opened.push_async_callback(services.close)
            await services.open_queue()
            opening = [_opened("memories", services.memories.open())]
            for name, wrapper in wrappers.items():
                opened.push_async_callback(wrapper.pipeline.close_async)
                opening.append(_opened(name, wrapper.pipeline.warm_up_async()))
            for ingestor in ingestors:
                opened.push_async_callback(ingestor.close)
                opening.append(_opened("documents", ingestor.open()))
            opening += [_opened("experts", desk.open()) for desk in desks]
            await _all_of(opening)
            for name, wrapper in wrappers.items():
                app.state.pipeline_registry.add(name, wrapper)
            for desk in desks:
                await opened.enter_async_context(desk.running())
            await warm_up_process()
            yield

    app.router.lifespan_context = lifespan
    return app


def run(settings: Settings) -> int:
    """
    Serve until SIGTERM or Ctrl-C; requests that are running then are finished.

    :param settings: Addresses of all parts, and where to listen.
    :returns: Exit code.
    :raises ConfigurationError: If settings, manifest or a pipeline are wrong, or the address is in use.
    """
    with _bound(settings.host, settings.port) as listener:
        settings = settings.listening_on(listener.getsockname()[1])
        app = create(settings, Manifest.load(settings))
        configure_logs()
        configure_tracing(service="hayrecall-server", content=settings.content_tracing)
        server = UvicornServer(app, when_ready=lambda: _ready(settings.address))
        asyncio.run(server.serve_on(listener))
        flush_traces()
    return 0


def _ready(address: str) -> None:
    """Say so; what was loaded so far is left out of garbage collections, which would stop all chats for 0.2 s."""
    gc.collect()
    gc.freeze()
    print(f"ready {address}", flush=True)  # noqa: T201


def _run_by(manifest: Manifest, who: RunBy) -> list[PipelineEntry]:
    return [entry for entry in manifest.entries.values() if entry.run_by == who]


def _wrapper(served: ServedPipeline) -> ChatPipelineWrapper:
    """Give a pipeline its HTTP shape: that of the wrapper beside its file, or the usual one."""
    entry = served.entry
    kind: type[ChatPipelineWrapper] = ChatPipelineWrapper
    if entry.wrapper.is_file():
        package = f"hayrecall_pipelines_{abs(hash(entry.wrapper.parent))}"
        kind = load_pipeline_module(entry.id, entry.wrapper.parent, package_name=package).PipelineWrapper
    wrapper: ChatPipelineWrapper = create_pipeline_wrapper_instance(
        SimpleNamespace(PipelineWrapper=lambda: kind(served))
    )
    return wrapper


async def _opened(name: str, opening: Awaitable[None]) -> None:
    """Open a part; one that is away now is looked for again by each request."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await opening
    except (TransientError, TimeoutError) as error:
        logger.warning("serving {part}, but: {reason}", part=name, reason=str(error) or "it does not answer")


async def _all_of(openings: Iterable[Awaitable[None]]) -> None:
    """Open parts side by side, so that several that are away cost no more time than one."""
    failures = [found for found in await asyncio.gather(*openings, return_exceptions=True) if found]
    if failures:
        raise failures[0]


def _bound(host: str, port: int) -> socket.socket:
    """Take the port first: that it is in use is told at once, and nobody connects before we are ready."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # asyncio does this for sockets that it makes itself. Without it an answer waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        msg = f"cannot listen on {host}:{port} ({error.strerror}); set HAYRECALL_HOST or HAYRECALL_PORT"
        raise ConfigurationError(msg) from error
    return listener

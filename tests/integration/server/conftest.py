"""A real server in the test's own process, so that a test sees what it leaves behind; spoken to over HTTP only."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import uvicorn
import yaml

from contracts.manifest import Manifest
from contracts.settings import Settings
from hayrecall.server.api_keys import add_key
from hayrecall.server.app import create
from tests.conftest import wait_until
from tests.scripted_model_server import ScriptedModelServer

HERE = Path(__file__).parent
JWT_SECRET = "what Open WebUI and Hayrecall both know, and nobody else does"


@dataclass
class Served:
    """A running server, and keys of each kind."""

    url: str
    settings: Settings
    loop: asyncio.AbstractEventLoop
    trusted: str
    untrusted: str
    admin: str
    other_tenant: str
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, user: str | None = None, *, key: str | None = None, **headers: str) -> httpx.Client:
        """Speak HTTP as a user of a trusted client."""
        named = {"X-OpenWebUI-User-Id": user} if user else {}
        headers = {"Authorization": f"Bearer {key or self.trusted}", **named, **headers}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=30)
        self.clients.append(client)  # closed with the server
        return client

    def sdk(self, user: str | None = None, *, key: str | None = None, **headers: str) -> openai.OpenAI:
        """Speak OpenAI's API as its own client does."""
        named = {"X-OpenWebUI-User-Id": user} if user else {}
        return openai.OpenAI(
            base_url=f"{self.url}/v1",
            api_key=key or self.trusted,
            default_headers={**named, **headers},
            max_retries=0,
            timeout=30,
        )

    def tasks(self) -> set[str]:
        """Name the tasks that the server's event loop holds right now."""
        return asyncio.run_coroutine_threadsafe(_task_names(), self.loop).result(5)


async def _task_names() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}


Serve = Callable[..., contextlib.AbstractContextManager[Served]]


@contextlib.contextmanager
def serving(folder: Path, pipelines: dict[str, Any] | Path | None, **settings: Any) -> Iterator[Served]:
    """Run a server with a manifest of these pipelines, or with that manifest (None: the project's own)."""
    manifest = pipelines if isinstance(pipelines, Path) else Path("pipelines.yaml")
    if isinstance(pipelines, dict):
        manifest = folder / "pipelines.yaml"
        manifest.write_text(yaml.safe_dump({"pipelines": pipelines}))
    keys = folder / "keys.json"
    shown: dict[str, Any] = {
        "trusted": add_key(keys, tenant="acme", trusted=True),
        "untrusted": add_key(keys, tenant="acme"),
        "admin": add_key(keys, tenant="acme", trusted=True, role="admin"),
        "other_tenant": add_key(keys, tenant="umbrella", trusted=True),
    }
    loaded = Settings(
        _env_file=None,
        data_dir=folder,
        manifest=manifest,
        api_keys_file=keys,
        openwebui_jwt_secret=JWT_SECRET,
        default_locale="en",
        **settings,
    )
    config = uvicorn.Config(
        create(loaded, Manifest.load(loaded)), host="127.0.0.1", port=0, log_config=None, ws="none", lifespan="on"
    )
    server = uvicorn.Server(config)
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), seconds=60)
    assert server.started, "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        served = Served(f"http://127.0.0.1:{port}", loaded, loops[0], **shown)
        yield served
    finally:
        for client in served.clients:
            client.close()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server did not stop"


ECHO = {
    "echo": {"file": str(HERE / "pipelines" / "echo.yml"), "description": "Answers."},
    "blind": {"file": str(HERE / "pipelines" / "echo.yml"), "vision": False},
    "tasks": {"file": str(HERE / "pipelines" / "tasks.yml")},
}


@pytest.fixture(scope="package")
def echo_server(
    tmp_path_factory: pytest.TempPathFactory, _model_server: ScriptedModelServer, nats_url: str, qdrant_url: str
) -> Iterator[Served]:
    """Serves `echo`, the answer model alone."""
    urls = {"llm_base_url": _model_server.url, "embedding_base_url": _model_server.url}
    with serving(tmp_path_factory.mktemp("echo"), ECHO, nats_url=nats_url, qdrant_url=qdrant_url, **urls) as served:
        yield served


@pytest.fixture
def served(echo_server: Served, model_server: ScriptedModelServer) -> Served:
    """The `echo` server, beside a model server without scripts."""
    return echo_server


@pytest.fixture(scope="package")
def rag_server(
    tmp_path_factory: pytest.TempPathFactory, _model_server: ScriptedModelServer, nats_url: str, qdrant_url: str
) -> Iterator[Served]:
    """Serves the project's own manifest."""
    urls = {"llm_base_url": _model_server.url, "embedding_base_url": _model_server.url}
    with serving(tmp_path_factory.mktemp("rag"), None, nats_url=nats_url, qdrant_url=qdrant_url, **urls) as served:
        yield served


@pytest.fixture
def rag(rag_server: Served, model_server: ScriptedModelServer) -> Served:
    """The shipped pipelines, beside a model server without scripts."""
    return rag_server

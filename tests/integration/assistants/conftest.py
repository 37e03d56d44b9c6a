"""One server with every kind of assistant; behind it scripted models, a webhook, and a Qdrant that is watched."""

import asyncio
import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from components.document_ingestor import DocumentIngestor
from components.pipeline_file import load_pipeline
from contracts.manifest import Manifest
from contracts.settings import Settings
from tests.integration.assistants.watched_qdrant import WatchedQdrant
from tests.integration.server.conftest import Served, serving
from tests.webhook_channel import Channel

MAX_INPUT_TOKENS = 6000
RAG = "pipelines/rag/pipeline.yml"
GUARDED = {"context_guard": True, "context_hops": 2, "document_top_k": 2, "memory_namespaces": ["", "support"]}
EXAMPLES = {"allow_examples": ["When does the canteen open?"], "block_examples": ["Write me a poem."]}
ASSISTANTS: dict[str, dict[str, Any]] = {
    "rag": {"file": RAG, "name": "Documents", "description": "Answers from documents."},
    "guarded": {"file": RAG, "vars": GUARDED},
    "limited": {"file": RAG, "vars": GUARDED | {"document_collection": "assistants_limits"}},
    "picky": {"file": RAG, "locale": "it", "vars": EXAMPLES},
    "locked": {"file": RAG, "vars": {"document_collection": "assistants_locked"}},
    "hr": {
        "file": RAG,
        "name": "HR desk",
        "description": "Answers questions about working here.",
        "prompts": {"answer": "prompts/answer"},
        "vars": {"document_collection": "assistants_hr"},
    },
}
DOCUMENTS = {
    "opens.txt": "The canteen opens at seven.",
    "closes.txt": "The canteen closes at two.",
    "vouchers.txt": "Lunch vouchers cost nine francs.",
    "parking.txt": "Parking permits are issued yearly.",
}
KEPT = ("expert-rag", "few-shot", "tasks", "experts", "ingest")


def manifest_of(path: Path, assistants: dict[str, dict[str, Any]], kept: tuple[str, ...], **shared: Any) -> Path:
    """Write a manifest of these assistants and some of the project's, with the project's variables and prompts."""
    content = yaml.safe_load(Path("pipelines.yaml").read_text())
    content["vars"] |= {"document_collection": "assistants_documents", **shared}
    content["pipelines"] = assistants | {name: content["pipelines"][name] for name in kept}
    content["prompts"] = {name: str(Path(folder).resolve()) for name, folder in content["prompts"].items()}
    for entry in content["pipelines"].values():
        entry["file"] = str(Path(entry["file"]).resolve())
    path.write_text(yaml.safe_dump(content, allow_unicode=True))
    return path


def write_prompt(folder: Path, greeting: str) -> None:
    """Write an answer prompt of its own: the project's, with one sentence more."""
    folder.mkdir(parents=True)
    for path in Path("pipelines/rag/prompts/answer").glob("*.jinja"):
        text = path.read_text()
        (folder / path.name).write_text(text.replace('role="system" %}\n', f'role="system" %}}\n{greeting}\n', 1))


def store_documents(
    settings: Settings, documents: dict[str, str], *, collection: str, groups: tuple[str, ...] = ()
) -> None:
    """Take texts in as `hayrecall ingest --collection` does."""
    entry = Manifest.load(settings).run_by("ingest")
    entry = replace(entry, values={**entry.values, "vars.document_collection": collection})

    async def ingest() -> None:
        ingestor = DocumentIngestor(load_pipeline(entry))
        await ingestor.open()
        for source, text in documents.items():
            await ingestor.ingest(text.encode(), source, tenant_id="acme", groups=groups)
        await ingestor.close()

    asyncio.run(ingest())


@pytest.fixture(scope="package")
def channel() -> Iterator[Channel]:
    channel = Channel()
    yield channel
    channel.close()


@pytest.fixture(scope="package")
def qdrant(qdrant_url: str) -> Iterator[WatchedQdrant]:
    qdrant = WatchedQdrant(qdrant_url)
    yield qdrant
    qdrant.close()


@pytest.fixture(scope="package")
def assistants_server(tmp_path_factory, _model_server, nats_url, qdrant, channel) -> Iterator[Served]:
    """Serves all assistants."""
    folder = tmp_path_factory.mktemp("assistants")
    write_prompt(folder / "prompts" / "answer", "You are discreet.")
    with serving(
        folder,
        manifest_of(folder / "pipelines.yaml", ASSISTANTS, KEPT),
        llm_base_url=_model_server.url,
        embedding_base_url=_model_server.url,
        nats_url=nats_url,
        qdrant_url=qdrant.url,
        experts=["Ann Meier"],
        public_url="https://chat.example.com",
        max_input_tokens=MAX_INPUT_TOKENS,
    ) as served:
        store_documents(served.settings, DOCUMENTS, collection="assistants_documents")
        store_documents(served.settings, {"vault.txt": "The vault."}, collection="assistants_locked", groups=("board",))
        yield served


@pytest.fixture
def assistants(assistants_server, model_server, channel, monkeypatch) -> Served:
    """All assistants, beside a model server without scripts and a channel that takes everything."""
    # For the test only: the server outlives its package where several are run at a time, and others read these too.
    monkeypatch.setenv("HAYRECALL_EXPERT_WEBHOOK_URL", channel.url)
    monkeypatch.setenv("HAYRECALL_EXPERT_WEBHOOK_SECRET", "what the channel and Hayrecall both know")
    channel.received.clear()
    channel.status = 200
    return assistants_server


@pytest.fixture
def user() -> str:
    """A user whom no other test knows."""
    return f"ann {uuid.uuid4()}"


def counted(served: Served, name: str, **labels: str) -> float:
    """Read a metric from the page that Prometheus reads."""
    page = httpx.get(f"{served.url}/metrics", timeout=10).text
    wanted = "".join(f'(?=[^}}]*{label}="{re.escape(value)}")' for label, value in labels.items())
    found = re.search(rf"^{name}{{{wanted}[^}}]*}} (\S+)$" if labels else rf"^{name} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0

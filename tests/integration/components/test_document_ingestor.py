"""Documents go in once, whole, and replace their older versions; what cannot be read is reported and passed over."""

import io
import os
import signal
import subprocess
import sys
import uuid

import docx
import httpx
import pypdf
import pytest

from components.document_access import in_tenant, tenant_tag
from components.document_index import DocumentIndex
from components.document_ingestor import DocumentIngestor, IngestOutcome
from components.ingest_progress import IngestProgress
from components.pipeline_file import load_pipeline
from contracts.errors import ConfigurationError, EmbedderUnavailableError
from contracts.manifest import Manifest
from contracts.settings import Settings
from hayrecall.local.ingest import ingest
from tests.conftest import wait_until
from tests.scripted_model_server import Failure

pytestmark = pytest.mark.integration


@pytest.fixture
def tenant() -> str:
    return f"tenant-{uuid.uuid4()}"


@pytest.fixture
async def ingestor(qdrant_url, model_server, monkeypatch):
    monkeypatch.setenv("HAYRECALL_EMBEDDING_API_KEY", "unused")
    settings = Settings(qdrant_url=qdrant_url, embedding_base_url=model_server.url)
    ingestor = DocumentIngestor(load_pipeline(Manifest.load(settings).run_by("ingest")))
    await ingestor.open()
    yield ingestor
    await ingestor.close()


@pytest.fixture
async def passages(qdrant_url, tenant):
    """Read what is stored of the tenant."""
    index = DocumentIndex(qdrant_url)

    async def passages() -> list[str | None]:
        found = await index.find(in_tenant(tenant))
        return [document.content for document in sorted(found, key=lambda document: document.meta["position"])]

    yield passages
    await index.close()


def word_file() -> bytes:
    word, file = docx.Document(), io.BytesIO()
    word.add_heading("Holidays", 1)
    word.add_paragraph("You have 25 days.")
    word.add_table(1, 2).cell(0, 0).text = "Level"
    word.save(file)
    return file.getvalue()


def pdf(*, password: str | None = None) -> bytes:
    writer, file = pypdf.PdfWriter(), io.BytesIO()
    writer.add_blank_page(100, 100)
    if password:
        writer.encrypt(password)
    writer.write(file)
    return file.getvalue()


HTML = (
    b"<html><body><main><h1>Holidays</h1>"
    b"<p>You have 25 days, and some more if you have worked long.</p></main></body></html>"
)
GERMAN = "Die Bürozeiten für Überstunden und Ähnliches: geöffnet von März bis Juni."


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.txt", b"You have 25 days.", "You have 25 days."),
        ("a.md", b"# Holidays\n\nYou have 25 days.", "Holidays\n\nYou have 25 days."),
        ("a.html", HTML, "Holidays\n\nYou have 25 days, and some more if you have worked long."),
        ("a.docx", word_file(), "Holidays\n\nYou have 25 days.\n\nLevel |"),
        ("a.csv", b"name,days\nAnn,25", "name,days\n\nAnn,25"),
        ("b.txt", GERMAN.encode("cp1252"), GERMAN),
        ("a.json", b'{"holidays": {"days": 25}}', "holidays.days: 25"),
    ],
)
async def test_each_type_of_file_is_read_with_its_headings(ingestor, passages, tenant, name, data, expected):
    outcome = await ingestor.ingest(data, name, tenant_id=tenant)

    assert outcome == IngestOutcome(name, "stored", 1)
    assert [(text or "").strip() for text in await passages()] == [expected]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.pdf", b"garbage", "no PDF, or damaged"),
        ("a.pdf", pdf(), "no text"),
        ("a.pdf", pdf(password="secret"), "encrypted"),
        ("a.docx", b"garbage", "no text can be read"),
        ("a.json", b"{", "no text can be read"),
        ("a.txt", b" \n", "empty"),
        ("a.exe", b"MZ", "type"),
    ],
)
async def test_what_cannot_be_read_is_skipped_with_the_reason(ingestor, passages, tenant, name, data, reason):
    outcome = await ingestor.ingest(data, name, tenant_id=tenant)

    assert outcome.status == "skipped"
    assert reason in outcome.reason
    assert await passages() == []


async def test_the_same_file_again_changes_nothing_and_asks_no_embedder(ingestor, tenant, model_server):
    await ingestor.ingest(b"# A\n\ntext", "a.md", tenant_id=tenant)
    asked = len(model_server.calls("embed"))

    assert (await ingestor.ingest(b"# A\n\ntext", "a.md", tenant_id=tenant)).status == "unchanged"
    assert len(model_server.calls("embed")) == asked


async def test_a_changed_file_replaces_its_old_passages(ingestor, passages, tenant):
    await ingestor.ingest(b"# A\n\nold\n\n# B\n\nold too", "a.md", tenant_id=tenant)
    await ingestor.ingest(b"# A\n\nnew", "a.md", tenant_id=tenant)

    assert await passages() == ["A\n\nnew"]


async def test_other_groups_replace_a_document_too(ingestor, tenant):
    await ingestor.ingest(b"text", "a.md", tenant_id=tenant)
    await ingestor.ingest(b"text", "a.md", tenant_id=tenant, groups=["board"])

    (document,) = await ingestor.documents(tenant)
    assert document.groups == ("board",)


async def test_documents_are_listed_and_deleted_by_source_within_their_tenant(ingestor, tenant):
    await ingestor.ingest(b"one", "a.md", tenant_id=tenant)
    await ingestor.ingest(b"two", "b.md", tenant_id=tenant)
    await ingestor.ingest(b"two", "b.md", tenant_id=f"other-{tenant}")

    assert await ingestor.delete(tenant, "b.md") == 1
    assert await ingestor.delete(tenant, "b.md") == 0
    assert [document.source for document in await ingestor.documents(tenant)] == ["a.md"]
    assert [document.source for document in await ingestor.documents(f"other-{tenant}")] == ["b.md"]


async def test_a_run_that_broke_off_goes_on_where_it_stopped(ingestor, passages, tenant, model_server):
    text = "\n\n".join(f"# Part {number}\n\nText of part {number}." for number in range(160)).encode()
    served = iter(range(6))
    model_server.default("embed", lambda _: "ok" if next(served, None) is not None else Failure(400))

    outcome = await ingestor.ingest(text, "a.md", tenant_id=tenant)
    assert outcome.status == "skipped"
    assert await ingestor.documents(tenant) == []
    half = len(await passages())
    assert 0 < half < 160

    model_server.reset()
    told: list[tuple[int, int]] = []
    progress = IngestProgress(lambda done, whole: told.append((done, whole)))
    outcome = await ingestor.ingest(text, "a.md", tenant_id=tenant, progress=progress)
    assert outcome == IngestOutcome("a.md", "stored", 160)
    assert sum(len(call.body["input"]) for call in model_server.calls("embed")) == 160 - half
    assert told[-1] == (160, 160)
    assert len(await passages()) == 160


async def test_an_embedder_that_is_down_is_no_fault_of_the_document(ingestor, tenant, model_server):
    model_server.default("embed", Failure(401))

    with pytest.raises(EmbedderUnavailableError):
        await ingestor.ingest(b"text", "a.md", tenant_id=tenant)


def run(*arguments: str, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from hayrecall.cli.app import main; main()", "ingest", *arguments],
        env=env,
        text=True,
        stderr=subprocess.PIPE,
    )


@pytest.mark.acceptance
def test_the_command_killed_on_the_way_and_run_again_stores_everything_once(qdrant_url, model_server, tenant, tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    for number in range(4):
        pages = "\n\n".join(f"# Page {page}\n\nWhat page {page} of {number} says." for page in range(75))
        (folder / f"{number}.md").write_text(pages)
    (folder / "broken.pdf").write_bytes(b"garbage")
    env = os.environ | {
        "HAYRECALL_QDRANT_URL": qdrant_url,
        "HAYRECALL_EMBEDDING_BASE_URL": model_server.url,
        "HAYRECALL_DATA_DIR": str(tmp_path / "data"),
    }
    model_server.latency["embed"] = 0.1
    for fewest in (3, 6):
        process = run(str(folder), "--tenant", tenant, env=env)
        wait_until(lambda fewest=fewest: len(model_server.calls("embed")) > fewest, seconds=60)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)
    model_server.latency["embed"] = 0

    process = run(str(folder), "--tenant", tenant, env=env)
    _, told = process.communicate(timeout=120)

    assert process.returncode == 0, told
    assert "skipped" in told
    assert "broken.pdf: it is no PDF, or damaged" in told
    assert "4 stored (300 passages), 0 unchanged, 1 skipped" in told
    assert stored(qdrant_url, tenant) == 300


def test_a_path_that_is_not_there_is_bad_usage(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no"):
        ingest(Settings(data_dir=tmp_path), [tmp_path / "nothing"], groups=[], tenant="default")


def stored(qdrant_url: str, tenant: str) -> int:
    wanted = {"must": [{"key": "meta.tenant_id", "match": {"value": tenant_tag(tenant)}}]}
    url = f"{qdrant_url}/collections/hayrecall_documents/points/count"
    return httpx.post(url, json={"filter": wanted, "exact": True}).json()["result"]["count"]

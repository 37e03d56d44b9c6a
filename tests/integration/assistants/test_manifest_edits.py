"""An assistant is an entry of the manifest, with name, prompt and documents of its own; a broken one never starts."""

import os
import shutil
import subprocess
import sys

import httpx
import pytest

from contracts.errors import ConfigurationError
from hayrecall.local import ingest
from hayrecall.server.api_keys import add_key
from tests.integration.assistants.conftest import DOCUMENTS, manifest_of
from tests.integration.assistants.talking import ask

pytestmark = pytest.mark.integration

HOLIDAYS = "Everybody has 27 days of holiday."
QUESTION = "How many days of holiday do I have?"


def hayrecall(*arguments: str, **settings: object) -> subprocess.Popen[str]:
    variables = {f"HAYRECALL_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "hayrecall", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=os.environ | variables, text=True, stdin=subprocess.DEVNULL, **pipes)


def test_a_second_assistant_with_documents_of_its_own_is_one_entry(
    assistants, model_server, qdrant_url, user, tmp_path
):
    (tmp_path / "holidays.md").write_text(HOLIDAYS)
    addresses = {"qdrant_url": qdrant_url, "embedding_base_url": model_server.url, "data_dir": tmp_path / "data"}
    ingesting = hayrecall(
        *("ingest", str(tmp_path / "holidays.md"), "--collection", "assistants_hr", "--tenant", "acme"),
        manifest=assistants.settings.manifest,
        **addresses,
    )
    assert ingesting.wait(60) == 0, ingesting.communicate()
    ingesting.communicate()
    model_server.default("condenser", QUESTION)
    client = assistants.client(user)

    _, told = ask(client, "hr", QUESTION)
    ask(client, "rag", QUESTION)

    own, other = (call.body["messages"][0]["content"] for call in model_server.calls("answer"))
    assert all(text in own for text in ("You are discreet.", '"HR desk"', "working here", HOLIDAYS))
    assert [source["source"].rpartition("/")[2] for source in told["sources"]] == ["holidays.md"]
    assert not any(text in own for text in DOCUMENTS.values())
    assert not any(text in other for text in ("You are discreet.", "HR desk", HOLIDAYS))
    assert {"rag", "hr"} <= {model["id"] for model in client.get("/v1/models").json()["data"]}


def test_documents_go_to_no_collection_that_nobody_searches(assistants, tmp_path):
    (tmp_path / "holidays.md").write_text(HOLIDAYS)

    with pytest.raises(ConfigurationError, match=r"searches the collection `hr_docs`; there are: assistants_documents"):
        ingest.ingest(assistants.settings, [tmp_path / "holidays.md"], groups=[], tenant="acme", collection="hr_docs")


def test_an_edit_takes_effect_at_the_next_start_and_a_broken_one_never_starts(
    model_server, nats_url, qdrant_url, tmp_path
):
    shutil.copytree("pipelines/rag", tmp_path / "rag")
    pipeline = tmp_path / "rag" / "pipeline.yml"
    sound = pipeline.read_text()
    manifest = manifest_of(
        tmp_path / "pipelines.yaml", {"rag": {"file": str(pipeline), "name": "New name"}}, ("writer",)
    )
    settings = {
        "manifest": manifest,
        "data_dir": tmp_path / "data",
        "api_keys_file": tmp_path / "keys.json",
        "llm_base_url": model_server.url,
        "embedding_base_url": model_server.url,
        "nats_url": nats_url,
        "qdrant_url": qdrant_url,
        "port": 0,
    }
    key = add_key(tmp_path / "keys.json", tenant="acme")

    broken = sound.replace("top_k: ${vars.memory_top_k}", "topk: ${vars.memory_top_k}")
    line = broken[: broken.index("topk:")].count("\n") + 1
    pipeline.write_text(broken)
    refused = [hayrecall(command, **settings) for command in ("check", "serve")]
    for process in refused:
        said, complaint = process.communicate(timeout=60)
        assert (process.returncode, said) == (2, "")
        assert (
            f"{pipeline}:{line}: `topk` is not a setting of MemoryRetriever; there are: memory_store, top_k,"
            in complaint
        )
        assert "Traceback" not in complaint

    edited = sound.replace('temperature: 0, max_completion_tokens: "$', 'temperature: 0.7, max_completion_tokens: "$')
    assert edited != sound
    pipeline.write_text(edited)
    serving = hayrecall("serve", **settings)
    try:
        assert serving.stdout
        ready = serving.stdout.readline().split()
        assert ready[:1] == ["ready"], serving.communicate()
        with httpx.Client(base_url=ready[1], headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
            assert ask(client, "rag", QUESTION)[1]["outcome"] == "answered"
    finally:
        serving.terminate()
        serving.communicate(timeout=30)
    (answering,) = model_server.calls("answer")
    assert answering.body["temperature"] == 0.7
    assert '"New name"' in answering.body["messages"][0]["content"]

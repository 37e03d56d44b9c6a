"""A value that no run could live with is refused at start, with its variable's place and what it may be."""

from pathlib import Path

import pytest

from components.pipeline_file import load_pipeline
from contracts.errors import ConfigurationError
from contracts.manifest import Manifest
from contracts.settings import Settings

SHIPPED = Path("pipelines.yaml")
ANYWHERE = dict.fromkeys(("llm_base_url", "embedding_base_url", "nats_url", "qdrant_url"), "http://127.0.0.1")


def load(folder: Path, name: str, old: str, new: str) -> None:
    text = SHIPPED.read_text()
    assert old in text
    changed = text.replace(old, new, 1).replace("pipelines/", f"{SHIPPED.absolute().parent}/pipelines/")
    (folder / "pipelines.yaml").write_text(changed.replace(" writer/", f" {SHIPPED.absolute().parent}/writer/"))
    settings = Settings(manifest=folder / "pipelines.yaml", _env_file=None, **ANYWHERE)
    load_pipeline(Manifest.load(settings).entries[name])


@pytest.mark.parametrize(
    ("name", "variable", "value", "wanted"),
    [
        ("rag", "answer_reserve_tokens", "999999", "choose 0 to 128000"),
        ("rag", "answer_reserve_tokens", "-1", "greater than or equal to 0"),
        ("rag", "context_hops", "99999", "less than or equal to 10"),
        ("rag", "document_collection", "a/b", "should match pattern"),
        ("rag", "document_collection", '""', "should match pattern"),
        ("ingest", "document_collection", "..", "should match pattern"),
        ("rag", "document_top_k", "99999", "need 1 <= top_k <= candidates"),
        ("rag", "memory_top_k", "0", "need 1 <= top_k <= candidates"),
        ("rag", "memory_min_score", "7", "0 <= min_score <= 1"),
        ("rag", "documents_tokens", "-5", "greater than or equal to 0"),
        ("rag", "memory_block_tokens", "-5", "greater than or equal to 0"),
        ("rag", "history_messages", "0", "greater than or equal to 1"),
        ("ingest", "passage_tokens", "1", "16"),
        ("experts", "expert_follow_ups", "99999", "less than or equal to 10"),
        ("experts", "expert_deadline_hours", "100000", "less than or equal to 8760"),
    ],
)
def test_an_absurd_value_is_refused_with_the_place_of_its_variable(tmp_path, name, variable, value, wanted):
    line = next(line for line in SHIPPED.read_text().splitlines() if line.startswith(f"  {variable}: "))
    number = SHIPPED.read_text().splitlines().index(line) + 1

    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, name, line, f"  {variable}: {value}")

    assert wanted in str(caught.value)
    assert f"`${{vars.{variable}}}`, {tmp_path}/pipelines.yaml:{number}" in str(caught.value)

"""Every pipeline of pipelines.yaml loads, and reads or writes no memory before the gate has cleared a turn."""

import sys
from pathlib import Path

import networkx
import pytest
from haystack import Pipeline

from components.document_retriever import DocumentRetriever
from components.gated_condenser import GatedCondenser
from components.memory_retriever import MemoryRetriever
from components.pending_turns_retriever import PendingTurnsRetriever
from components.pipeline_file import load_pipeline
from components.question_embedder import QuestionEmbedder
from components.turn_intent_recorder import TurnIntentRecorder
from components.turn_publisher import TurnPublisher
from contracts.manifest import Manifest
from contracts.settings import Settings
from contracts.turn import LOCALES

SETTINGS = Settings(
    _env_file=None,
    llm_base_url="http://127.0.0.1:1/v1",
    embedding_base_url="http://127.0.0.1:1/v1",
    nats_url="nats://127.0.0.1:1",
    qdrant_url="http://127.0.0.1:1",
)
MANIFEST = Manifest.load(SETTINGS)
BEHIND_THE_GATE = (
    QuestionEmbedder,
    MemoryRetriever,
    PendingTurnsRetriever,
    DocumentRetriever,
    TurnIntentRecorder,
    TurnPublisher,
)
PROMPTS = sorted({path.parent for path in Path().glob("*/**/prompts/*/*.jinja")})


def test_the_models_that_other_peoples_scripts_use_are_served():
    assert {"rag", "expert-rag", "few-shot", "tasks"} <= MANIFEST.served().keys()


@pytest.mark.parametrize("name", MANIFEST.entries)
def test_loads_and_survives_a_round_trip_through_yaml(name):
    pipeline = load_pipeline(MANIFEST.entries[name]).pipeline

    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["components"])

    assert again.graph.nodes.keys() == pipeline.graph.nodes.keys()
    assert sorted(again.graph.edges) == sorted(pipeline.graph.edges)


@pytest.mark.parametrize("name", MANIFEST.served())
def test_nothing_reads_or_writes_memory_before_the_gate_has_cleared_the_turn(name):
    pipeline = load_pipeline(MANIFEST.entries[name]).pipeline
    instances = networkx.get_node_attributes(pipeline.graph, "instance")
    gates = {node for node, found in instances.items() if isinstance(found, GatedCondenser) and found.gate is not None}

    guarded = [node for node, found in instances.items() if isinstance(found, BEHIND_THE_GATE)]
    assert guarded or name == "tasks"
    for node in guarded:
        assert gates & networkx.ancestors(pipeline.graph, node), f"{node} runs without the gate"


@pytest.mark.parametrize("name", MANIFEST.served())
def test_every_turn_is_remembered_by_its_condensed_question_only(name):
    pipeline = load_pipeline(MANIFEST.entries[name]).pipeline

    searched = {"embedder", "memory_retriever", "document_retriever", "conversation_builder", "intent_recorder"}
    for sender, receiver, edge in pipeline.graph.edges(data=True):
        if receiver in searched:
            assert sender != "history_limiter", edge


def test_no_pipeline_folder_shadows_a_package():
    folders = {path.name for path in Path("pipelines").iterdir() if path.is_dir()}

    assert not folders & ({"components", "contracts", "writer", "hayrecall", "tests"} | sys.stdlib_module_names)


@pytest.mark.parametrize("folder", PROMPTS, ids=str)
def test_every_prompt_exists_in_every_locale(folder):
    assert {path.stem for path in folder.iterdir()} == set(LOCALES)

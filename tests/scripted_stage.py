"""What component tests share: a generator that talks to the scripted model server, and a turn."""

from datetime import UTC, datetime
from typing import Any

from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.utils import Secret

from contracts.turn import Agent, TurnContext
from tests.scripted_model_server import ScriptedModelServer


def scripted_generator(server: ScriptedModelServer, stage: str, **changes: Any) -> OpenAIChatGenerator:
    """Make the generator that a pipeline's YAML would give a stage."""
    settings: dict[str, Any] = {
        "api_key": Secret.from_env_var("HAYRECALL_LLM_API_KEY"),
        "model": "scripted",
        "api_base_url": server.url,
        "timeout": 5,
        "max_retries": 0,
        "http_client_kwargs": {"headers": {"X-Hayrecall-Stage": stage}},
    }
    return OpenAIChatGenerator(**(settings | changes))


def a_turn(**changes: Any) -> TurnContext:
    """Make a turn of a German-speaking tenant."""
    values: dict[str, Any] = {
        "tenant_id": "tenant",
        "run_id": "run",
        "agent": Agent("rag", "Handbook"),
        "locale": "de",
        "said_at": datetime(2026, 3, 2, 9, tzinfo=UTC),
        "user_id": "anna",
    }
    return TurnContext(**(values | changes))

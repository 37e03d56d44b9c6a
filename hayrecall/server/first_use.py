"""Pay at the start for what would make the first request of a process slow."""

import asyncio

from haystack import Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.dataclasses import ChatMessage

from components.language import detect_locale
from components.refusal_texts import refusal_text
from components.token_counter import TekkenTokenCounter


async def warm_up_process() -> None:
    """Load what is loaded on first use: vocabulary and language models, refusal texts, Haystack's own lazy imports."""
    await TekkenTokenCounter().warm_up_async()
    await asyncio.to_thread(detect_locale, "Bonjour, when is it?", "en")
    refusal_text("condensation_empty", "en")
    pipeline = Pipeline()
    pipeline.add_component("builder", ChatPromptBuilder([ChatMessage.from_user("{{ x }}")], required_variables=["x"]))
    await pipeline.run_async({"builder": {"x": "warm"}})

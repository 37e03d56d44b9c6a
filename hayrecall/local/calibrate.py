"""Measure the embedder from the command line."""

import asyncio

from haystack.components.embedders import OpenAITextEmbedder
from haystack.utils import Secret

from components.calibration import Calibration, calibrate
from contracts.settings import Settings
from hayrecall.local.instance import connected


def run(settings: Settings, *, query_prefix: str, passage_prefix: str) -> int:
    """
    Measure the embedder and print the lines for the manifest.

    :param settings: Settings as they were loaded.
    :param query_prefix: The model's prefix for questions.
    :param passage_prefix: The model's prefix for texts to be found.
    :returns: Exit code 0.
    :raises EmbedderUnavailableError: If the embedder does not answer.
    """
    with connected(settings, ["embedder"]) as reached:
        figures = asyncio.run(_measure(reached, query_prefix, passage_prefix))
    print(  # noqa: T201 - what the command is for
        f"# {reached.embedding_model}: unrelated texts {figures.background_cosine} ± {figures.background_spread}, "
        f"answers {figures.answers_cosine}\n"
        f"memory_min_score: {figures.min_score}\n"
        f"memory_background_cosine: {figures.background_cosine}\n"
        f"memory_background_spread: {figures.background_spread}"
    )
    return 0


async def _measure(settings: Settings, query_prefix: str, passage_prefix: str) -> Calibration:
    questions, memories = (
        OpenAITextEmbedder(
            api_key=Secret.from_env_var("HAYRECALL_EMBEDDING_API_KEY", strict=False),
            model=settings.embedding_model,
            api_base_url=settings.embedding_base_url,
            prefix=prefix,
            max_retries=1,
        )
        for prefix in (query_prefix, passage_prefix)
    )
    try:
        return await calibrate(questions, memories)
    finally:
        await questions.close_async()
        await memories.close_async()

"""XQuAD: the right passage first, within a language and across."""

from collections.abc import Callable
from pathlib import Path

from haystack import Document
from haystack.utils import Secret

from benchmarks.quality.datasets import Squad, xquad
from benchmarks.quality.parts import each, embedder, percent, turn, vectors
from components.document_access import access_tags, tenant_tag
from components.document_index import DocumentIndex
from components.document_retriever import DocumentRetriever
from components.passage_writer import PassageWriter
from contracts.settings import Settings
from contracts.turn import Locale, Vector

LOCALES: tuple[Locale, ...] = ("de", "en")


async def measure(settings: Settings, data: Path) -> dict[str, dict[str, float]]:
    """Give R@1 of the questions that nothing was tuned on, by question and passage language."""
    sets = {locale: xquad(data, locale) for locale in LOCALES}
    asked = {locale: await vectors(settings, "query: ", squad.questions) for locale, squad in sets.items()}
    indexes = {locale: await _index(settings, locale, squad) for locale, squad in sets.items()}
    figures = {}
    for of in LOCALES:
        for among in LOCALES:
            figures[f"{of}-{among}"] = await _compare(indexes[among], sets[of], asked[of], of)
    for index in indexes.values():
        await index.close()
    return figures


async def _index(settings: Settings, locale: Locale, squad: Squad) -> DocumentIndex:
    assert settings.qdrant_url
    index = DocumentIndex(
        settings.qdrant_url,
        api_key=_key(),
        collection=f"quality_{locale}",
        dimension=settings.embedding_dimension,
        timeout_seconds=30,
    )
    meta = {"tenant_id": tenant_tag("quality"), "access": access_tags([]), "content_hash": "1", "locale": locale}
    passages = [
        Document(content=text, meta=meta | {"source": "xquad", "position": position})
        for position, text in enumerate(squad.passages)
    ]
    await PassageWriter(index, embedder(settings, "passage: ")).run_async(passages)
    return index


async def _compare(index: DocumentIndex, squad: Squad, asked: list[Vector], locale: Locale) -> dict[str, float]:
    hybrid = DocumentRetriever(index, top_k=1, candidates=50)
    dense = DocumentRetriever(index, top_k=1, candidates=1, hybrid=False)
    ways: dict[str, tuple[DocumentRetriever, Callable[[int], Vector]]] = {
        "dense": (dense, lambda number: asked[number]),
        "sparse": (hybrid, lambda _: Vector()),  # what is left when the embedder is down
        "hybrid": (hybrid, lambda number: asked[number]),
    }

    figures = {}
    for name, (retriever, vector) in ways.items():

        async def hit(
            number: int, retriever: DocumentRetriever = retriever, vector: Callable[[int], Vector] = vector
        ) -> bool:
            found = await retriever.run_async(squad.questions[number], vector(number), turn("quality", locale=locale))
            return [document.meta["position"] for document in found["documents"]] == [squad.targets[number]]

        figures[name] = percent(await each(squad.reported, hit))
    return figures


def _key() -> Secret:
    return Secret.from_env_var("HAYRECALL_QDRANT_API_KEY", strict=False)

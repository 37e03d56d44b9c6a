"""The passages that an answer may cite, as `[1]`, `[2]`…: for everybody, and in Open WebUI's own form."""

from collections.abc import Mapping
from typing import Any

from hayhooks.open_webui import create_source_event
from haystack import Document
from starlette.datastructures import Headers

_FIELDS = ("source", "title", "page", "position")


def cited(number: int, document: Document) -> dict[str, Any]:
    """
    Describe a passage for the `hayrecall` field.

    :param number: What the answer calls it.
    :param document: The passage.
    """
    told = {name: document.meta[name] for name in _FIELDS if document.meta.get(name) is not None}
    return {"index": number, "id": document.id, **told, "text": document.content, "score": document.score}


def is_open_webui(headers: Headers) -> bool:
    """Tell whether a request comes from Open WebUI, or from somebody who speaks like it."""
    return any(name.startswith("x-openwebui-") for name in headers)


def source_event(source: Mapping[str, Any]) -> dict[str, Any]:
    """
    Make the event that has Open WebUI show a passage, and link `[n]` in the text to it.

    Open WebUI merges passages with the same source and counts names, each once: every passage gets its own.

    :param source: A passage as `cited` describes it.
    :returns: The field `event` of a chunk.
    """
    name = f"{source['index']}. {source.get('title') or source.get('source') or source['id']}"
    if "page" in source:
        name += f", p. {source['page']}"
    metadata = {"source": source["id"], "name": name}
    if "source" in source:
        metadata["file"] = source["source"]
    data = {"source": {"id": source["id"], "name": name}, "document": [source["text"]], "metadata": [metadata]}
    event: dict[str, Any] = create_source_event(data).to_event_dict()
    return event

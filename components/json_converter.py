"""Turn JSON files of any shape into text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haystack import Document, component, logging
from haystack.components.converters.utils import get_bytestream_from_source
from haystack.dataclasses import ByteStream

logger = logging.getLogger(__name__)


@component
class JsonConverter:
    """
    Converts JSON into lines of `path: value`, one paragraph for each record.

    For files of which nobody knows the keys; Haystack's `JSONConverter` takes one named field, or a jq program.

    ### Usage example

    ```python
    from haystack.dataclasses import ByteStream

    from components.json_converter import JsonConverter

    source = ByteStream(b'[{"room": "A", "seats": {"max": 8}}, {"room": "B"}]')
    (document,) = JsonConverter().run([source])["documents"]

    assert document.content == "room: A\\nseats.max: 8\\n\\nroom: B"
    ```
    """

    @component.output_types(documents=list[Document])
    def run(self, sources: list[str | Path | ByteStream]) -> dict[str, Any]:
        """
        Convert files; what is no JSON is logged and left out.

        :param sources: Paths or contents of JSON files, in UTF-8, UTF-16 or UTF-32.
        :returns: `documents`: one for each file, with the file's `meta`.
        """
        documents = []
        for source in map(get_bytestream_from_source, sources):
            try:
                value = json.loads(source.data)
            except (ValueError, RecursionError) as error:
                logger.warning("skipped a file that is no JSON: {error}", error=type(error).__name__)
                continue
            documents.append(Document(content="\n\n".join(_paragraphs(value)), meta=dict(source.meta)))
        return {"documents": documents}


def _paragraphs(value: Any) -> Iterator[str]:
    records = value if isinstance(value, list) else [value]
    for record in records:
        if lines := list(_lines(record, "")):
            yield "\n".join(lines)


def _lines(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, path)
    elif value is not None and value != "":
        yield f"{path}: {value}" if path else str(value)

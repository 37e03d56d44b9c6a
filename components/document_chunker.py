"""Cut documents into passages that an embedder can take, along their structure."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from haystack import Document, component

from components.language import detect_locale
from components.text_blocks import Block, blocks_of, rows_of
from components.text_pieces import pieces_of
from components.token_counter import TekkenTokenCounter
from contracts.turn import Locale

_WINDOW_SHARE = 0.7  # an embedder's tokens are not ours: German and code take up to a third more in some vocabularies
_HEADINGS_SHARE = 0.25
_DETECTION_CHARACTERS = 3_000


@component
class DocumentChunker:
    """
    Cuts documents into passages: along headings first, then paragraphs, lines, sentences and words.

    Each passage starts with the headings above it, so that it can be understood, embedded and cited by itself. Rows of
    a table file start with the names of its columns.

    ### Usage example

    ```python
    from haystack import Document

    from components.document_chunker import DocumentChunker

    text = "# Holidays\\n\\nYou have 25 days.\\n\\n## Carry over\\n\\nFive days."
    passages = DocumentChunker().run([Document(content=text, meta={"source": "handbook.md"})])["documents"]

    assert [passage.content for passage in passages] == [
        "Holidays\\n\\nYou have 25 days.",
        "Holidays > Carry over\\n\\nFive days.",
    ]
    assert passages[1].meta["title"] == "Holidays"
    ```
    """

    def __init__(self, *, max_tokens: int = 320, window_tokens: int = 8192, locale: Locale = "de") -> None:
        """
        Configure the chunker; nothing is loaded here.

        :param max_tokens: Longest passage, at least 16.
        :param window_tokens: Longest text that the embedder takes, in its own tokens; passages stay well below.
        :param locale: Language of documents in which none can be told.
        :raises ValueError: If a number is out of range.
        """
        if max_tokens < 16 or window_tokens < 16:  # noqa: PLR2004 - below, headings alone would not fit
            msg = f"need max_tokens >= 16 and window_tokens >= 16, got {max_tokens=} and {window_tokens=}"
            raise ValueError(msg)
        self.max_tokens = max_tokens
        self.window_tokens = window_tokens
        self.locale = locale
        self._counter = TekkenTokenCounter()

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """
        Cut documents.

        :param documents: Documents with text; `meta` with `source` and, for table files, `mime_type` text/csv.
        :returns: `documents`: the passages; `meta` is that of their document with `title`, `heading`, `page` (from 1),
            `position` (from 0), `passages` (how many there are) and `locale`.
        """
        return {"documents": [passage for document in documents for passage in self._passages(document)]}

    def _passages(self, document: Document) -> list[Document]:
        text = document.content or ""
        table = document.meta.get("mime_type") == "text/csv"
        blocks = list(rows_of(text) if table else blocks_of(text))
        title = (None if table else _title(blocks)) or PurePosixPath(str(document.meta.get("source", ""))).stem
        locale = detect_locale(text[:_DETECTION_CHARACTERS], self.locale)
        chunks = list(self._chunks(blocks))
        return [
            Document(
                content=chunk.text,
                meta={
                    **document.meta,
                    "title": title,
                    "heading": " > ".join(chunk.headings),
                    "page": chunk.page,
                    "position": position,
                    "passages": len(chunks),
                    "locale": locale,
                },
            )
            for position, chunk in enumerate(chunks)
        ]

    def _chunks(self, blocks: list[Block]) -> Iterator[Block]:
        budget = min(self.max_tokens, int(self.window_tokens * _WINDOW_SHARE))
        measure = self._counter.count_text
        for headings, section in groupby(blocks, key=lambda block: block.headings):
            head = next(pieces_of(" > ".join(headings), int(budget * _HEADINGS_SHARE), measure), "")
            room = budget - measure(head)
            for group in self._packed(list(section), room):
                for piece in pieces_of("\n\n".join(block.text for block in group), room, measure):
                    yield Block(f"{head}\n\n{piece}" if head else piece, headings, group[0].page)

    def _packed(self, blocks: list[Block], room: int) -> Iterator[list[Block]]:
        """Put neighbouring blocks together as long as they fit."""
        group: list[Block] = []
        used = 0
        for block in blocks:
            size = self._counter.count_text(block.text)
            if group and used + size > room:
                yield group
                group, used = [], 0
            group.append(block)
            used += size
        if group:
            yield group


def _title(blocks: list[Block]) -> str | None:
    return next((block.headings[0] for block in blocks if block.headings), None)

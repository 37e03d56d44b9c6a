"""Turn Word files into Markdown-like text that keeps their headings."""

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
from docx.document import Document as WordDocument
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table
from haystack import Document, component, logging
from haystack.components.converters.utils import get_bytestream_from_source
from haystack.dataclasses import ByteStream

logger = logging.getLogger(__name__)

_HEADING_STYLE = re.compile(r"(?:Heading|heading) (\d)")


@component
class DocxConverter:
    """
    Converts Word files: headings become `#` lines, tables rows of cells.

    Haystack's own `DOCXToDocument` drops which paragraphs are headings, which passages need.

    ### Usage example

    ```python
    import io

    import docx
    from haystack.dataclasses import ByteStream

    from components.docx_converter import DocxConverter

    word, file = docx.Document(), io.BytesIO()
    word.add_heading("Holidays", 1)
    word.add_paragraph("You have 25 days.")
    word.save(file)
    (document,) = DocxConverter().run([ByteStream(file.getvalue())])["documents"]

    assert document.content == "# Holidays\\n\\nYou have 25 days."
    ```
    """

    @component.output_types(documents=list[Document])
    def run(self, sources: list[str | Path | ByteStream]) -> dict[str, Any]:
        """
        Convert files; what is no Word file is logged and left out.

        :param sources: Paths or contents of .docx files.
        :returns: `documents`: one for each file, with the file's `meta`.
        """
        documents = []
        for source in map(get_bytestream_from_source, sources):
            try:
                word = docx.Document(io.BytesIO(source.data))
                text = "\n\n".join(part for part in _parts(word) if part.strip())
            except (PackageNotFoundError, zipfile.BadZipFile, KeyError, ValueError) as error:
                logger.warning("skipped a file that is no Word document: {error}", error=type(error).__name__)
                continue
            documents.append(Document(content=text, meta=dict(source.meta)))
        return {"documents": documents}


def _parts(word: WordDocument) -> Iterator[str]:
    for part in word.iter_inner_content():
        if isinstance(part, Table):
            yield "\n".join(" | ".join(cell.text.strip() for cell in row.cells) for row in part.rows)
            continue
        heading = _HEADING_STYLE.fullmatch((part.style.name if part.style else None) or "")
        level = min(int(heading[1]), 6) if heading else 0
        yield f"{'#' * level} {part.text}" if level and part.text.strip() else part.text

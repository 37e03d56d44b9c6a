"""See the structure of a text: paragraphs under their headings, on their pages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

PAGE_BREAK = "\f"

_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True)
class Block:
    """A paragraph, table, list or fence; `headings` are those above it, outermost first; `page` counts from 1."""

    text: str
    headings: tuple[str, ...] = ()
    page: int = 1


def blocks_of(text: str) -> Iterator[Block]:
    """
    Read Markdown-like text; what has no headings is one run of paragraphs.

    :param text: Text with `#` headings, blank lines between paragraphs, form feeds between pages.
    :returns: The blocks in order. A heading without anything below it is a block of its own.
    """
    headings: list[tuple[int, str]] = []
    lines: list[str] = []
    fenced = unused = False
    page = started = 1

    def block(text: str) -> Block:
        return Block(text, tuple(title for _, title in headings), started)

    for line in _lines(text):
        if line == PAGE_BREAK:
            if lines and not fenced:
                yield block("\n".join(lines))
                lines, unused = [], False
            page += 1
            continue
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if lines and (heading or (not line.strip() and not fenced)):
            yield block("\n".join(lines))
            lines, unused = [], False
        if heading:
            depth = len(heading[1])
            if unused and headings[-1][0] >= depth:
                yield Block(headings[-1][1], tuple(title for _, title in headings[:-1]), started)
            headings = [*((level, title) for level, title in headings if level < depth), (depth, heading[2])]
            unused = True
        elif line.strip() or lines:
            started = started if lines else page
            lines.append(line.rstrip())
        if heading:
            started = page
    if lines:
        yield block("\n".join(lines))
    elif unused:
        yield Block(headings[-1][1], tuple(title for _, title in headings[:-1]), started)


def rows_of(text: str) -> Iterator[Block]:
    """
    Read a table of separated values: each row is a block under the first one, which names the columns.

    :param text: Content of a CSV file.
    """
    names, *rows = text.splitlines() or [""]
    for row in rows or [names]:
        if row.strip():
            yield Block(row, (names,) if rows else ())


def _lines(text: str) -> Iterator[str]:
    """Give the lines, and each page break by itself."""
    for number, page in enumerate(text.replace("\r\n", "\n").split(PAGE_BREAK)):
        if number:
            yield PAGE_BREAK
        yield from page.split("\n")

"""Cut text into pieces of limited length where it hurts least."""

import re
from collections.abc import Callable, Iterator

# From the best place to cut to the worst: between paragraphs, lines, sentences, words.
_SEAMS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?。！？])\s*(?=\S)"), re.compile(r"\s+"))  # noqa: RUF001
_JOINTS = ("\n\n", "\n", " ", " ")


def pieces_of(text: str, budget: int, measure: Callable[[str], int], *, level: int = 0) -> Iterator[str]:
    """
    Cut a text into pieces that fit, each as long as possible.

    :param text: Any text.
    :param budget: Longest piece, at least 1.
    :param measure: Length of a text in the unit of `budget`.
    :param level: Best seam to cut at, as an index into those from paragraphs to words.
    :returns: The pieces in order, without blank ones.
    """
    text = text.strip()
    if not text:
        return
    if measure(text) <= budget:
        yield text
    elif level == len(_SEAMS):  # one word that is too long: a hash, a text in a script without blanks
        middle = len(text) // 2 or 1
        yield from pieces_of(text[:middle], budget, measure, level=level)
        yield from pieces_of(text[middle:] if len(text) > 1 else "", budget, measure, level=level)
    else:
        yield from _packed(_SEAMS[level].split(text), _JOINTS[level], budget, measure, level)


def _packed(parts: list[str], joint: str, budget: int, measure: Callable[[str], int], level: int) -> Iterator[str]:
    piece, used = "", 0
    for part in parts:
        size = measure(part)
        if piece and used + size > budget:
            yield from pieces_of(piece, budget, measure, level=level + 1)
            piece, used = "", 0
        piece = f"{piece}{joint}{part}" if piece else part
        used += size
    yield from pieces_of(piece, budget, measure, level=level + 1)

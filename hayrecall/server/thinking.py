"""Keep a model's reasoning out of what the user reads."""

import string

_OPEN, _CLOSE = "<think>", "</think>"
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # unlike `lower`, it keeps every length


class ThinkFilter:
    """
    Takes `<think>…</think>` out of a text that arrives in pieces; a tag may be split anywhere.

    Text that may be the beginning of a tag is held back until the next piece tells. What follows a closed tag starts
    without the blank lines that models put there. A block that never closes is dropped whole.
    """

    def __init__(self) -> None:
        """Start outside of any block."""
        self._held = ""
        self._thinking = False
        self._strip = False

    def feed(self, piece: str) -> str:
        """
        Take the next piece.

        :param piece: Text as it came from the model.
        :returns: What can be shown now.
        """
        self._held += piece
        shown = ""
        while tag := self._next_tag():
            before, _, self._held = _partition(self._held, tag)
            if not self._thinking:
                shown += self._kept(before)
            self._strip = self._strip or tag == _CLOSE
            self._thinking = tag == _OPEN
        safe = len(self._held) - self._partial_tag()
        if not self._thinking:
            shown += self._kept(self._held[:safe])
        self._held = self._held[safe:]
        return shown

    def finish(self) -> str:
        """
        End the text.

        :returns: What was held back and turned out to be no tag.
        """
        return "" if self._thinking else self._kept(self._held)

    def _next_tag(self) -> str:
        """Name the tag that comes first in what is held; an opening tag inside of a block is just text."""
        lowered = self._held.translate(_LOWER)
        tags = [_CLOSE] if self._thinking else [_OPEN, _CLOSE]
        found = [(place, tag) for tag in tags if (place := lowered.find(tag)) >= 0]
        return min(found)[1] if found else ""

    def _partial_tag(self) -> int:
        """Count the characters at the end that may be the beginning of a tag."""
        lowered = self._held.translate(_LOWER)
        for length in range(min(len(_CLOSE) - 1, len(lowered)), 0, -1):
            if _OPEN.startswith(lowered[-length:]) or _CLOSE.startswith(lowered[-length:]):
                return length
        return 0

    def _kept(self, text: str) -> str:
        if self._strip:
            text = text.lstrip()
            self._strip = not text
        return text


def _partition(text: str, tag: str) -> tuple[str, str, str]:
    place = text.translate(_LOWER).find(tag)
    return text[:place], tag, text[place + len(tag) :]

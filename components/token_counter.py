"""Count tokens offline, with the vocabulary that mistral-common ships."""

import asyncio
import re
import threading
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from importlib.resources import as_file, files
from typing import Any

from haystack.core.serialization import default_from_dict, default_to_dict
from haystack.dataclasses import ChatMessage
from haystack.tools import ToolsType, flatten_tools_or_toolsets
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

MESSAGE_OVERHEAD_TOKENS = 8  # role, separators and end mark; chat templates of today take 4 to 7
PRIMING_TOKENS = 4  # what a chat template adds to start the reply
IMAGE_TOKENS = 1_600  # vision models take 85 to 1,600 for an image
FILE_TOKENS = 1_600

_VOCABULARY = "tekken_240911.json"
_CHUNK_CHARACTERS = 16_384  # bounds the tokenizer's work and memory on a text without any blank
_LONGEST_TOKEN_CHARACTERS = 32
_RARE_SCRIPTS = re.compile(r"[\u0530-\u058f\u0700-\u0dff\u0e80-\u1dff]")  # Indic, Lao, Burmese, Georgian, Khmer, …
_SEMITIC_SCRIPTS = re.compile(r"[\u0590-\u06ff]")
_loading = threading.Lock()


@cache
def _load() -> Tekkenizer:
    with as_file(files("mistral_common") / "data" / _VOCABULARY) as path:
        return Tekkenizer.from_file(path)


def _vocabulary() -> Tekkenizer:
    with _loading:  # `cache` alone would let two threads load it twice
        return _load()


def _surcharge(text: str) -> int:
    """Estimate what a tokenizer that knows a script less well takes on top."""
    if text.isascii():
        return 0
    return (6 * len(_RARE_SCRIPTS.findall(text)) + len(_SEMITIC_SCRIPTS.findall(text)) + 9) // 10


class TekkenTokenCounter:
    """
    Counts tokens as Mistral's Tekken tokenizer does: 130,000 entries, many languages and scripts, no download.

    Special tokens that stand in a text are counted as the plain text that they are. Scripts that other tokenizers know
    much less well (Qwen 2.5 takes 2.4 times as many tokens for Hindi, 1.3 times for Arabic) are counted as by those, so
    that no script is under-counted; Latin, Cyrillic and Thai differ by less than a fifth.

    The vocabulary (0.7 s, 100 MB) is loaded once per process, at the first count or by `warm_up_async`.

    ### Usage example

    ```python
    from components.token_counter import TekkenTokenCounter

    counter = TekkenTokenCounter()
    assert counter.count_text("How many vacation days do I have?") == 8
    assert counter.count_text("") == 0
    ```
    """

    def warm_up(self) -> None:
        """Load the vocabulary."""
        _vocabulary()

    async def warm_up_async(self) -> None:
        """Load the vocabulary without holding up the event loop."""
        await asyncio.to_thread(_vocabulary)

    def count_text(self, text: str, *, stop_after: int | None = None) -> int:
        """
        Count the tokens of a text.

        :param text: Any text: NUL, lone surrogates and special tokens are counted like other characters.
        :param stop_after: Number of tokens after which counting may stop, because more is too much anyway.
        :returns: The number of tokens, or any number above `stop_after`.
        """
        vocabulary = _vocabulary()
        tokens = 0
        for start in range(0, len(text), _CHUNK_CHARACTERS):
            chunk = text[start : start + _CHUNK_CHARACTERS]
            tokens += len(vocabulary.encode(chunk, bos=False, eos=False)) + _surcharge(chunk)
            if stop_after is not None and tokens > stop_after:
                break
        return tokens

    def cut(self, text: str, max_tokens: int) -> str:
        """
        Cut a text to a number of tokens, at the end of a word where there is one.

        :param text: Any text.
        :param max_tokens: Most tokens of the result.
        :returns: The text itself if it is short enough, else its beginning.
        """
        if self.count_text(text, stop_after=max_tokens) <= max_tokens:
            return text
        # No token of prose is longer: what lies behind cannot be part of the result.
        text = text[: max_tokens * _LONGEST_TOKEN_CHARACTERS]
        length = bisect_right(range(1, len(text) + 1), max_tokens, key=lambda end: self.count_text(text[:end]))
        words = text[:length].rsplit(maxsplit=1)
        whole_words = words[0] if len(words) > 1 else text[:length]
        return whole_words.rstrip()

    def count_message(self, message: ChatMessage, *, stop_after: int | None = None) -> int:
        """
        Count one message with what a chat template puts around it.

        :param message: Message with texts, images, files, tool calls or tool results.
        :param stop_after: As in `count_text`.
        :returns: The number of tokens, or any number above `stop_after`.
        """
        tokens = MESSAGE_OVERHEAD_TOKENS
        for text in self._texts(message):
            tokens += self.count_text(text, stop_after=stop_after)
            if stop_after is not None and tokens > stop_after:
                return tokens
        tokens += IMAGE_TOKENS * len(message.images)
        return tokens + FILE_TOKENS * len(message.files)

    def count(self, messages: Sequence[ChatMessage], tools: ToolsType | None = None) -> int:
        """
        Count messages as Haystack's `TokenCounter` protocol asks.

        :param messages: Messages of one model input.
        :param tools: Tools that go with them.
        :returns: The number of tokens, with what a chat template adds.
        """
        schemas = [str(tool.tool_spec) for tool in flatten_tools_or_toolsets(tools)]
        return (
            PRIMING_TOKENS
            + sum(self.count_message(message) for message in messages)
            + sum(self.count_text(schema) for schema in schemas)
        )

    def to_dict(self) -> dict[str, Any]:
        """Serialize; there are no settings."""
        return default_to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "TekkenTokenCounter":
        """Build from what `to_dict` gave."""
        return default_from_dict(cls, data)

    @staticmethod
    def _texts(message: ChatMessage) -> list[str]:
        calls = [f"{call.tool_name} {call.arguments}" for call in message.tool_calls]
        results = [str(result.result) for result in message.tool_call_results]
        return [*message.texts, *calls, *results]

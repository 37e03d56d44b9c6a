"""Show a chat to a model as data: who said what, without anything that could pass for one of our own markers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from haystack.dataclasses import ChatMessage, ChatRole

from components.token_counter import TekkenTokenCounter

_MARKER = re.compile(r"<(?=/?\s*(?:chat|said|message|documents?|memory|memories|question)\b)", re.IGNORECASE)
_GAP = "\n[…]\n"


@dataclass(frozen=True)
class Utterance:
    """One thing that was said, as a prompt shows it."""

    role: str
    text: str


def as_data(text: str) -> str:
    """
    Make a text harmless inside the tags that our prompts put around data.

    :param text: Text of a user, a document or a memory.
    :returns: The text, in which a tag of ours starts with `&lt;` and so closes nothing.
    """
    return _MARKER.sub("&lt;", text)


def text_of(message: ChatMessage) -> str:
    """
    Give all that a message says.

    :param message: A chat message.
    :returns: Its text parts in lines; `[image]` for a message that is only that.
    """
    text = "\n".join(message.texts).strip()
    return text or ("[image]" if message.images else "")


def last_user_text(messages: Sequence[ChatMessage]) -> str:
    """
    Give what the user said last.

    :param messages: A chat.
    :returns: The text, blank if there is none.
    """
    return next((text_of(message) for message in reversed(messages) if message.is_from(ChatRole.USER)), "")


def abridge(text: str, max_characters: int) -> str:
    """
    Leave out the middle of a long text: what matters of a message stands at its beginning or its end.

    :param text: Any text.
    :param max_characters: Longest result, without the mark of the gap.
    :returns: The text, or its two ends.
    """
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    return text[:half] + _GAP + text[-half:]


def transcript(messages: Sequence[ChatMessage], *, max_tokens: int, counter: TekkenTokenCounter) -> list[Utterance]:
    """
    Show the newest turns of a chat.

    System messages and what tools gave are left out; a long turn is abridged.

    :param messages: Turns, oldest first.
    :param max_tokens: Most tokens of all texts together.
    :param counter: Counts them.
    :returns: Utterances, oldest first, harmless as data.
    """
    shown: list[Utterance] = []
    for message in reversed(messages):
        if not (message.is_from(ChatRole.USER) or message.is_from(ChatRole.ASSISTANT)):
            continue
        text = as_data(abridge(text_of(message), max_tokens))  # a quarter of the budget: about four characters a token
        max_tokens -= counter.count_text(text)
        if max_tokens < 0:
            break
        if text:
            shown.append(Utterance(message.role.value, text))
    return shown[::-1]

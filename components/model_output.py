"""Read what a model said: without its reasoning, out of fences, as text or as a JSON object."""

import json
import re
from collections.abc import Container
from typing import Any

from contracts.errors import UnreadableModelOutputError

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_CLOSING_TAG = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_OPENING_TAG = re.compile(r"<think(?:ing)?>", re.IGNORECASE)


def without_reasoning(text: str) -> str:
    """
    Remove reasoning: whole blocks, what stands before a lone closing tag, what stands after a lone opening tag.

    :param text: A model's reply.
    :returns: The rest, without blanks around it.
    """
    rest = _CLOSING_TAG.split(_THOUGHT.sub("", text))[-1]
    return _OPENING_TAG.split(rest, maxsplit=1)[0].strip()


def read_object(text: str, *, schema_name: str, properties: Container[str]) -> dict[str, Any]:
    """
    Find the JSON object in a reply.

    :param text: A model's reply: bare JSON, JSON in fences or in prose, after reasoning.
    :param schema_name: Name for the error message.
    :param properties: Names of which the object must have at least one.
    :returns: The first object that has one.
    :raises UnreadableModelOutputError: If there is none.
    """
    answer = without_reasoning(text)
    decoder = json.JSONDecoder()
    position = answer.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(answer, position)
        except (json.JSONDecodeError, RecursionError):
            end = position + 1
        else:
            if any(name in properties for name in value):
                return dict(value)
        position = answer.find("{", end)
    msg = f"the reply to {schema_name} holds no JSON object of its schema ({len(text)} characters)"
    raise UnreadableModelOutputError(msg)

"""Ask a chat model for text or for JSON, with errors that say who is to blame."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import openai
from haystack.dataclasses import ChatMessage

from components.metrics import STAGE_SECONDS
from components.model_output import read_object
from contracts.errors import HayrecallError, ModelUnavailableError, RejectedRequestError, UnreadableModelOutputError

STAGE_HEADER = "X-Hayrecall-Stage"

_OPERATOR_MISTAKES = {401: "check the API key", 403: "check the API key's rights", 404: "check the model's name"}
_TRY_LATER = {408, 409, 425, 429}
_SERVER_ERROR = 500


class AsyncChatGenerator(Protocol):
    """What we need of a Haystack chat generator."""

    async def run_async(
        self, messages: list[ChatMessage], *, generation_kwargs: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Answer the messages under the key `replies`."""
        ...


async def open_model(part: object) -> None:
    """Open what a nested generator holds: Haystack warms up the outer component only. Some have nothing to open."""
    if hasattr(part, "warm_up_async"):
        await part.warm_up_async()


async def close_model(part: object) -> None:
    """Close what a nested generator holds."""
    if hasattr(part, "close_async"):
        await part.close_async()


async def reply_text(
    chat_generator: AsyncChatGenerator,
    messages: Sequence[ChatMessage],
    *,
    generation_kwargs: dict[str, Any] | None = None,
) -> str:
    """
    Ask for plain text.

    :param chat_generator: Haystack chat generator; its own settings bound time and retries.
    :param messages: The whole prompt.
    :param generation_kwargs: Merged over the generator's own.
    :returns: The reply as the model gave it, `<think>` included; empty if it gave none.
    :raises ModelUnavailableError: On no connection, timeout, 429 and 5xx; on 401, 403 and 404 too: an operator mends
        them, and the same request succeeds.
    :raises RejectedRequestError: If the backend rejects this request.
    :raises UnreadableModelOutputError: If the response is no chat completion.
    """
    started = time.perf_counter()
    try:
        result = await chat_generator.run_async(list(messages), generation_kwargs=generation_kwargs or {})
    except openai.OpenAIError as error:
        raise model_error(error) from error
    except (AssertionError, AttributeError, TypeError, ValueError) as error:
        # A 200 whose body is no chat completion (a proxy's HTML page, no choices) comes out of the client like this.
        msg = f"the {stage_of(chat_generator)} model's endpoint answered with something that is no chat completion"
        raise UnreadableModelOutputError(msg) from error
    finally:
        STAGE_SECONDS.labels(stage=stage_of(chat_generator)).observe(time.perf_counter() - started)
    replies: list[ChatMessage] = result["replies"]
    return (replies[0].text or "") if replies else ""


async def structured_reply(
    chat_generator: AsyncChatGenerator,
    messages: Sequence[ChatMessage],
    *,
    schema_name: str,
    schema: dict[str, Any],
    generation_kwargs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Ask for a JSON object; understand backends that ignore the schema and answer in fences or after `<think>`.

    :param chat_generator: Haystack chat generator.
    :param messages: The whole prompt.
    :param schema_name: Name of the schema in the request.
    :param schema: JSON schema of an object, strict: all properties required, `additionalProperties` false.
    :param generation_kwargs: Merged over the generator's own.
    :returns: The object. The values are the caller's to check: not every backend keeps to the schema.
    :raises ModelUnavailableError: As in `reply_text`.
    :raises RejectedRequestError: As in `reply_text`; also if the backend does not know `response_format`.
    :raises UnreadableModelOutputError: If the reply holds no object with a property of the schema.
    """
    response_format = {
        "type": "json_schema",
        "json_schema": {"name": schema_name, "schema": schema, "strict": True},
    }
    kwargs = {**(generation_kwargs or {}), "response_format": response_format}
    text = await reply_text(chat_generator, messages, generation_kwargs=kwargs)
    return read_object(text, schema_name=schema_name, properties=schema["properties"])


def model_error(error: openai.OpenAIError) -> HayrecallError:
    """
    Translate what an OpenAI client raised into the error that decides what happens.

    :param error: From a chat or answer generator; for one that Haystack wrapped, its `__cause__`.
    :returns: A sentence for an operator, without the backend's own text, which may quote the user's.
    """
    if isinstance(error, openai.APIStatusError):
        return _status_error(error.status_code)
    if isinstance(error, openai.LengthFinishReasonError | openai.ContentFilterFinishReasonError):
        return UnreadableModelOutputError("the model broke off before its answer was complete")
    if isinstance(error, openai.APITimeoutError):
        return ModelUnavailableError("the model did not answer in time")
    if isinstance(error, openai.APIConnectionError):
        return ModelUnavailableError("the model's endpoint does not answer; check HAYRECALL_LLM_BASE_URL")
    return ModelUnavailableError(f"the model broke off with {type(error).__name__}")


def _status_error(status: int) -> HayrecallError:
    if status in _OPERATOR_MISTAKES:
        return ModelUnavailableError(f"the model's endpoint answered {status}; {_OPERATOR_MISTAKES[status]}")
    if status in _TRY_LATER or status >= _SERVER_ERROR:
        return ModelUnavailableError(f"the model's endpoint answered {status}")
    return RejectedRequestError(f"the model's endpoint rejected the request with {status}")


def stage_of(chat_generator: object) -> str:
    """Read the stage from the header that the YAML gives the generator; `unknown` without one."""
    settings = getattr(chat_generator, "http_client_kwargs", None) or {}
    return str(settings.get("headers", {}).get(STAGE_HEADER, "unknown"))

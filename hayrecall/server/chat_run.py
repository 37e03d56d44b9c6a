"""One run of a served pipeline: its text while it is written, and what it came to."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from haystack import Document, logging
from haystack.core.errors import PipelineRuntimeError
from haystack.dataclasses import ChatMessage, StreamingChunk

from components.chat_transcript import last_user_text
from components.history_limiter import HistoryLimiter
from components.language import locale_of_turn
from components.pipeline_file import LoadedPipeline
from components.refusal_texts import refusal_text
from contracts.errors import Outcome, RefusalError, UnreadableModelOutputError
from contracts.turn import TurnContext
from hayrecall.server.citations import cited
from hayrecall.server.ending import Ending
from hayrecall.server.thinking import ThinkFilter

logger = logging.getLogger(__name__)

CONCURRENCY_LIMIT = 16  # components of one run at a time: more than any pipeline has side by side
_OUTCOMES: dict[str, Outcome] = {"meta_answer": "meta", "refusal_answer": "context_insufficient"}


class ChatRun:
    """
    Runs a pipeline for one turn.

    Whoever iterates over `texts` must be ready to call `cancel` when the client is gone; it is safe at any time.
    """

    def __init__(self, loaded: LoadedPipeline, turn: TurnContext, *, usage: bool = False) -> None:
        """
        Start nothing yet.

        :param loaded: The pipeline.
        :param turn: Who asks, and in which language a refusal is worded.
        :param usage: Ask the models for token counts.
        """
        self.loaded = loaded
        self.turn = turn
        self.ending = Ending()
        self._usage = usage
        self.answer: str | None = None  # as the model gave it, once it is complete
        self.ended = False
        self._answer_pieces: list[str] = []
        self._handle: Any = None

    async def texts(
        self, messages: list[ChatMessage], generation_kwargs: Mapping[str, Any]
    ) -> AsyncGenerator[str, None]:
        """
        Run, and give the text for the user piece by piece.

        A refusal is text like any other; one that the answer model should word, and does not, has a text of ours.
        Afterwards `ending` tells the rest.

        :param messages: The client's messages.
        :param generation_kwargs: Sampling settings for the components that write to the user.
        :raises PipelineRuntimeError: If the run fails, also because the model that answers gives no text.
        """
        if self._usage:
            generation_kwargs = {**generation_kwargs, "stream_options": {"include_usage": True}}
        messages = await self._candidates(messages)
        self._handle = self.loaded.pipeline.stream(
            self._data(messages, generation_kwargs),
            streaming_components=self.loaded.streamed,
            include_outputs_from=self.loaded.reported,
            concurrency_limit=CONCURRENCY_LIMIT,
        )
        shown = ThinkFilter()
        spoken = False
        try:
            async for chunk in self._handle:
                self._note(chunk)
                if text := shown.feed(chunk.content):
                    spoken = spoken or not text.isspace()
                    yield text
            if text := shown.finish():
                spoken = spoken or not text.isspace()
                yield text
            self._conclude(self._handle.result)
            if not spoken:
                yield self._instead(messages)
        except RefusalError as refusal:
            self.ending.outcome = refusal.outcome
            self.ending.reason, self.ending.question = refusal.reason, refusal.question
            yield self._refusal(messages)
        except PipelineRuntimeError as error:
            wording = self._component("refusal_answer")
            if spoken or wording is None or error.component_name != wording:
                raise
            logger.warning("the answer model did not word a refusal: {reason}", reason=type(error.__cause__).__name__)
            self.ending.outcome = "context_insufficient"
            yield self._refusal(messages)
        self.ended = True

    def cancel(self) -> None:
        """Stop the run at once, and with it the model calls that are open."""
        if self._handle is not None:
            self._handle._task.cancel()

    async def _candidates(self, messages: list[ChatMessage]) -> list[ChatMessage]:
        """Leave out what the pipeline's limiter drops in any case; one without a limiter takes them all."""
        for target in self.loaded.inputs.get("messages", ()):
            limiter = self.loaded.pipeline.get_component(target.split(".")[0])
            if not isinstance(limiter, HistoryLimiter):
                return messages
            messages = await asyncio.to_thread(limiter.candidates, messages)
        return messages

    def _data(self, messages: list[ChatMessage], generation_kwargs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        given = {"messages": messages, "turn": self.turn}
        data = self.loaded.run_data(**{name: value for name, value in given.items() if name in self.loaded.inputs})
        free = self.loaded.pipeline.inputs()
        for component in self.loaded.streamed:
            if generation_kwargs and "generation_kwargs" in free.get(component, {}):
                own = getattr(self.loaded.pipeline.get_component(component), "generation_kwargs", {})
                asked = generation_kwargs if component == self._component("answer") else _free(generation_kwargs)
                data.setdefault(component, {})["generation_kwargs"] = _merged(own, asked)
        return data

    def _instead(self, messages: list[ChatMessage]) -> str:
        """Give our own text for a refusal that the model left blank; a blank answer is a failure of the model."""
        if self.ending.outcome == "context_insufficient":
            return self._refusal(messages)
        msg = "the answer model gave no text"
        raise UnreadableModelOutputError(msg)

    def _refusal(self, messages: list[ChatMessage]) -> str:
        """Give the text of the outcome in the language of the user's last question."""
        ending = self.ending
        locale = locale_of_turn(last_user_text(messages), ending.question, self.turn.locale)
        return refusal_text(ending.outcome, locale, question=ending.question)

    def _note(self, chunk: StreamingChunk) -> None:
        if usage := chunk.meta.get("usage"):
            self.ending.usage = usage
        if chunk.component_info and chunk.component_info.name == self._component("answer"):
            self._answer_pieces.append(chunk.content)
            if chunk.finish_reason:
                self.answer = "".join(self._answer_pieces)
        if chunk.finish_reason:
            self.ending.finish_reason = chunk.finish_reason

    def _component(self, output: str) -> str | None:
        """Name the component behind an output; None if the pipeline has no such output."""
        return self.loaded.outputs[output].split(".")[0] if output in self.loaded.outputs else None

    def _conclude(self, result: Mapping[str, Mapping[str, Any]]) -> None:
        said = next((name for name in _OUTCOMES if self.loaded.output(result, name)), "answer")
        ending = self.ending
        ending.outcome = _OUTCOMES.get(said, "answered")
        ending.reason = self.loaded.output(result, "reason") or ""
        ending.question = self.loaded.output(result, "question") or ""
        documents = cast("list[Document]", self.loaded.output(result, "sources") or [])
        ending.sources = [cited(number, document) for number, document in enumerate(documents, 1)]


def _free(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the form that an answer was asked for in: it would not fit what is said instead of one."""
    return {name: value for name, value in asked.items() if name != "response_format"}


def _merged(own: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Let a client's limit count under the name that the pipeline uses, so that a backend never gets both."""
    merged = dict(asked)
    names = ("max_tokens", "max_completion_tokens")
    for mine, other in (names, names[::-1]):
        if mine in own and other in merged:
            merged[mine] = merged.pop(other)
    return merged

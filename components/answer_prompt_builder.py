"""Build the answer model's input within its limit."""

from typing import Annotated, Any

from haystack import Document, component
from haystack.dataclasses import ChatMessage
from pydantic import Field

from components.chat_transcript import as_data
from components.locale_prompt import LocalePrompt
from components.prompt_parts import PromptParts, effective_limit, fit
from components.token_counter import TekkenTokenCounter


@component
class AnswerPromptBuilder:
    """
    Renders the answer prompt: our instructions, the client's, memories, numbered documents, and the chat as it came.

    It fits the effective limit with the answer reserve. What goes, in this order: the organization's memories, the
    user's, the oldest turns, documents from the lowest-ranked up. Nothing raises. Everything that others wrote stands
    in tags as data.

    ### Usage example

    ```python
    from haystack import Document
    from haystack.dataclasses import ChatMessage

    from components.answer_prompt_builder import AnswerPromptBuilder

    builder = AnswerPromptBuilder(prompt_dir="pipelines/rag/prompts/answer", max_input_tokens=8000)
    handbook = Document(content="Everybody has 25 days.", meta={"source": "handbook.md"})

    result = builder.run(
        messages=[ChatMessage.from_user("How many vacation days do I have?")],
        documents=[handbook],
        question="How many vacation days do I have?",
        locale="en",
        accepted=True,
    )
    assert "Everybody has 25 days." in result["prompt"][0].text
    assert result["sources"] == [handbook]
    ```
    """

    def __init__(
        self,
        *,
        prompt_dir: str,
        max_input_tokens: int,
        model_window_tokens: int | None = None,
        answer_reserve_tokens: int = 1024,
        max_documents_tokens: Annotated[int, Field(ge=0)] | None = None,
        name: str = "",
        description: str = "",
    ) -> None:
        """
        Configure the builder.

        :param prompt_dir: Prompt with the variables `name`, `description`, `instructions` and `memories` (lists of
            texts), `documents` (with `number`, `title` and `text`), `question` and `turns` (chat messages).
        :param max_input_tokens: Configured ceiling on the tokens of one model input.
        :param model_window_tokens: Window of the answer model; None if it is unknown.
        :param answer_reserve_tokens: Tokens kept free for the answer.
        :param max_documents_tokens: Most tokens of all documents together, so that a slow model starts sooner; None for
            as many as fit.
        :param name: The assistant's name.
        :param description: What it is for.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        self.prompt_dir = prompt_dir
        self.max_input_tokens = max_input_tokens
        self.model_window_tokens = model_window_tokens
        self.answer_reserve_tokens = answer_reserve_tokens
        self.max_documents_tokens = max_documents_tokens
        self.name = name
        self.description = description
        self._prompt = LocalePrompt(
            prompt_dir,
            provides=("name", "description", "instructions", "memories", "documents", "question", "turns"),
        )
        self._counter = TekkenTokenCounter()

    async def warm_up_async(self) -> None:
        """Load the tokenizer."""
        await self._counter.warm_up_async()

    @component.output_types(prompt=list[ChatMessage], sources=list[Document])
    def run(
        self,
        messages: list[ChatMessage],
        documents: list[Document],
        question: str,
        locale: str,
        accepted: bool,
    ) -> dict[str, Any]:
        """
        Build the prompt.

        :param messages: The grafted chat; it ends with the user's last turn, which stays as it is.
        :param documents: Documents, best first.
        :param question: The condensed question that the documents were found with.
        :param locale: Language of the instructions and of the answer.
        :param accepted: That the assistant is meant to answer; always true.
        :returns: `prompt`, and `sources`: the documents in it; the first is cited as [1].
        """
        parts = PromptParts.split(messages, self._within_cap(documents))
        limit = effective_limit(self.max_input_tokens, self.model_window_tokens) - self.answer_reserve_tokens
        prompt, used = fit(
            parts,
            lambda parts: self._render(parts, question, locale),
            max_tokens=limit,
            counter=self._counter,
        )
        return {"prompt": prompt, "sources": list(used.documents)}

    def _render(self, parts: PromptParts, question: str, locale: str) -> list[ChatMessage]:
        return self._prompt.messages(
            locale,
            name=self.name,
            description=self.description,
            instructions=[text for said in parts.system for text in said.texts],
            memories=[block.text for block in parts.blocks],
            documents=[
                {"number": number, "title": _title(document), "text": as_data(document.content or "")}
                for number, document in enumerate(parts.documents, start=1)
            ],
            question=as_data(question),
            turns=list(parts.turns),
        )

    def _within_cap(self, documents: list[Document]) -> list[Document]:
        """Keep the best documents up to the cap, at least one."""
        if self.max_documents_tokens is None:
            return documents
        left = self.max_documents_tokens
        kept: list[Document] = []
        for document in documents:
            left -= self._counter.count_text(document.content or "")
            if left < 0 and kept:
                break
            kept.append(document)
        return kept


def _title(document: Document) -> str:
    title = as_data(str(document.meta.get("title") or document.meta.get("source") or ""))
    page = document.meta.get("page")
    return f"{title}, {page}" if title and page else title

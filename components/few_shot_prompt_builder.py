"""Build the input of a model that classifies by examples."""

from haystack import component
from haystack.dataclasses import ChatMessage

from components.locale_prompt import LocalePrompt
from components.prompt_parts import PromptParts, effective_limit, fit
from components.token_counter import TekkenTokenCounter
from contracts.turn import LOCALES

Example = dict[str, str]


@component
class FewShotPromptBuilder:
    """
    Renders the client's system messages, our instructions, pairs of examples, and the condensed question.

    Neither the history nor the client's last message is part of it. It fits the effective limit with the answer
    reserve; what goes first is what the answer prompt drops first (memories), then the examples from the last one up.

    ### Usage example

    ```python
    from haystack.dataclasses import ChatMessage

    from components.few_shot_prompt_builder import FewShotPromptBuilder

    pair = {"question": "The printer is on fire", "answer": "urgent"}
    builder = FewShotPromptBuilder(
        prompt_dir="pipelines/few-shot/prompts/classify",
        examples={"en": [pair], "de": [], "fr": [], "it": []},
        max_input_tokens=2000,
    )

    chat = [ChatMessage.from_user("as I said, but now the lift")]
    prompt = builder.run(chat, question="The lift is stuck", locale="en")["prompt"]
    assert [message.text for message in prompt][1:] == ["The printer is on fire", "urgent", "The lift is stuck"]
    ```
    """

    def __init__(
        self,
        *,
        prompt_dir: str,
        examples: dict[str, list[dict[str, str]]],
        max_input_tokens: int,
        model_window_tokens: int | None = None,
        answer_reserve_tokens: int = 500,
        name: str = "",
        description: str = "",
    ) -> None:
        """
        Configure the builder.

        :param prompt_dir: Instructions: plain text with the variables `name` and `description`.
        :param examples: For each locale, pairs of `question` and `answer`.
        :param max_input_tokens: Configured ceiling on the tokens of one model input.
        :param model_window_tokens: Window of the model; None if it is unknown.
        :param answer_reserve_tokens: Tokens kept free for the answer.
        :param name: The assistant's name.
        :param description: What it is for.
        :raises ValueError: If a locale has no examples' list, or an example is no pair.
        :raises ConfigurationError: If the prompt is not whole.
        """
        if missing := sorted(set(LOCALES) ^ examples.keys()):
            msg = f"`examples` needs a list for each of {', '.join(LOCALES)} and nothing else; see {', '.join(missing)}"
            raise ValueError(msg)
        for locale, pairs in examples.items():
            if any(pair.keys() != {"question", "answer"} for pair in pairs):
                msg = f"each example of `{locale}` is a pair of `question` and `answer`"
                raise ValueError(msg)
        self.prompt_dir = prompt_dir
        self.examples = examples
        self.max_input_tokens = max_input_tokens
        self.model_window_tokens = model_window_tokens
        self.answer_reserve_tokens = answer_reserve_tokens
        self.name = name
        self.description = description
        self._prompt = LocalePrompt(prompt_dir)
        self._counter = TekkenTokenCounter()

    async def warm_up_async(self) -> None:
        """Load the tokenizer."""
        await self._counter.warm_up_async()

    @component.output_types(prompt=list[ChatMessage])
    def run(
        self, messages: list[ChatMessage], question: str, locale: str, accepted: bool = True
    ) -> dict[str, list[ChatMessage]]:
        """
        Build the prompt.

        :param messages: The grafted chat; only its leading system messages are used.
        :param question: The condensed question.
        :param locale: Language of instructions and examples.
        :param accepted: That the assistant is meant to answer; always true.
        :returns: `prompt`.
        """
        instructions = ChatMessage.from_system(self._prompt.text(locale, name=self.name, description=self.description))
        pairs = [
            (ChatMessage.from_user(pair["question"]), ChatMessage.from_assistant(pair["answer"]))
            for pair in self.examples[locale]
        ]
        # The examples stand where a chat's turns would, the first one last to go.
        turns = [message for pair in reversed(pairs) for message in pair]
        parts = PromptParts.split([*_lead(messages), *turns, ChatMessage.from_user(question)])
        limit = effective_limit(self.max_input_tokens, self.model_window_tokens) - self.answer_reserve_tokens
        prompt, _ = fit(
            parts,
            lambda parts: [*parts.system, *parts.blocks, instructions, *parts.turns],
            max_tokens=limit,
            counter=self._counter,
        )
        return {"prompt": prompt}


def _lead(messages: list[ChatMessage]) -> list[ChatMessage]:
    """Give the system messages at the beginning, the client's and the memory blocks."""
    parts = PromptParts.split(messages)
    return [*parts.system, *parts.blocks]

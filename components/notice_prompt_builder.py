"""Let the answer model say something about the assistant itself, or why it does not answer."""

from collections.abc import Sequence

from haystack import component
from haystack.dataclasses import ChatMessage

from components.chat_transcript import as_data
from components.locale_prompt import LocalePrompt


@component
class NoticePromptBuilder:
    """
    Renders the prompt of an answer that needs neither documents nor memories.

    One instance answers questions about the assistant from its name, description and stages, another words a refusal
    for a reason. It runs only when a `notice` arrives.

    ### Usage example

    ```python
    from components.notice_prompt_builder import NoticePromptBuilder

    builder = NoticePromptBuilder(
        prompt_dir="pipelines/rag/prompts/meta",
        name="Handbook",
        description="Answers questions about the handbook.",
        stages=["condenser", "memory_retriever", "answer"],
    )
    prompt = builder.run(notice="Who are you?", locale="en")["prompt"]

    assert "Handbook" in prompt[0].text
    assert "Who are you?" in prompt[-1].text
    ```
    """

    def __init__(self, *, prompt_dir: str, name: str = "", description: str = "", stages: Sequence[str] = ()) -> None:
        """
        Configure the builder.

        :param prompt_dir: Prompt with the variables `name`, `description`, `stages`, `notice` and `question`.
        :param name: The assistant's name.
        :param description: What it is for.
        :param stages: Names of the pipeline's components, in data order.
        :raises ConfigurationError: If the prompt is missing or broken.
        """
        self.prompt_dir = prompt_dir
        self.name = name
        self.description = description
        self.stages = list(stages)
        self._prompt = LocalePrompt(prompt_dir, provides=("name", "description", "stages", "notice", "question"))

    @component.output_types(prompt=list[ChatMessage])
    def run(self, notice: str, locale: str, question: str = "") -> dict[str, list[ChatMessage]]:
        """
        Build the prompt.

        :param notice: What the user asked about the assistant, or the reason of a refusal.
        :param locale: Language of the answer.
        :param question: The condensed question, for a refusal.
        :returns: `prompt`.
        """
        return {
            "prompt": self._prompt.messages(
                locale,
                name=self.name,
                description=self.description,
                stages=self.stages,
                notice=as_data(notice),
                question=as_data(question),
            )
        }

"""Reduce a finished turn to what memory may learn from."""

from haystack import component
from haystack.dataclasses import ChatMessage

from components.model_output import without_reasoning


@component
class MemoryConversationBuilder:
    """
    Makes exactly two messages of a turn: the condensed question and the answer.

    The model's final input, with its documents and memories, never gets into what is stored. Without an answer it is
    the question alone.

    ### Usage example

    ```python
    from haystack.dataclasses import ChatMessage

    from components.memory_conversation_builder import MemoryConversationBuilder

    builder = MemoryConversationBuilder()
    result = builder.run(question="I work 60 %. How many days?", replies=[ChatMessage.from_assistant("15.")])

    assert [message.text for message in result["conversation"]] == ["I work 60 %. How many days?", "15."]
    ```
    """

    @component.output_types(conversation=list[ChatMessage])
    def run(self, question: str, replies: list[ChatMessage]) -> dict[str, list[ChatMessage]]:
        """
        Build the conversation.

        :param question: The condensed question.
        :param replies: The answer model's replies; the first one counts.
        :returns: `conversation`: question (user) and answer (assistant), or the question alone.
        """
        conversation = [ChatMessage.from_user(question)]
        answer = without_reasoning((replies[0].text or "") if replies else "")
        if answer:
            conversation.append(ChatMessage.from_assistant(answer))
        return {"conversation": conversation}

"""Hand a long chat to a model without holding up everybody else."""

from typing import Any

from haystack import component
from haystack.components.generators.chat import OpenAIChatGenerator


@component
class LongChatGenerator(OpenAIChatGenerator):
    """
    Asks a model as `OpenAIChatGenerator` does, with the same settings and the same request, whatever the chat's length.

    OpenAI's client compares every message with every type of message that there is, on the event loop: a chat of 8,000
    small ones stops all others for more than a second. What comes as `extra_body` is sent as it is, and a message that
    Haystack has put into OpenAI's form needs no more than that. Use it where a client's whole chat goes to a model.

    ### Usage example

    ```python
    from haystack.utils import Secret

    from components.long_chat_generator import LongChatGenerator

    generator = LongChatGenerator(model="local", api_key=Secret.from_env_var("HAYRECALL_LLM_API_KEY"))
    assert generator.to_dict()["type"] == "components.long_chat_generator.LongChatGenerator"
    ```
    """

    def _prepare_api_call(self, **call: Any) -> dict[str, Any]:
        # By the class's name: `@component` makes a class anew, which `super()` does not know.
        arguments: dict[str, Any] = OpenAIChatGenerator._prepare_api_call(self, **call)
        further = dict(arguments.get("extra_body") or {})
        return {**arguments, "messages": [], "extra_body": {**further, "messages": arguments["messages"]}}

"""Ask a chat model without the cost of OpenAI's client comparing every message with every type."""

from typing import Any

from haystack import component
from haystack.components.generators.chat import OpenAIChatGenerator

from components.tls import sharing_tls


@component
class LeanChatGenerator(OpenAIChatGenerator):
    """
    Asks a model as `OpenAIChatGenerator` does, with the same settings and the same request, at a fraction of the cost.

    OpenAI's client compares every message, and every schema, with every type that there is, on the event loop: the
    gate's examples alone cost more than all our own work on its prompt, and a chat of 8,000 small messages stops all
    others for more than a second. What comes as `extra_body` is sent as it is, and what Haystack has put into OpenAI's
    form needs no more than that. The TLS context is shared with all other clients, unless `verify` is set.

    ### Usage example

    ```python
    from haystack.utils import Secret

    from components.lean_chat_generator import LeanChatGenerator

    generator = LeanChatGenerator(model="local", api_key=Secret.from_env_var("HAYRECALL_LLM_API_KEY"))
    assert generator.to_dict()["type"] == "components.lean_chat_generator.LeanChatGenerator"
    ```
    """

    async def warm_up_async(self) -> None:
        """Open the client on the serving event loop."""
        with sharing_tls(self):
            await OpenAIChatGenerator.warm_up_async(self)

    def _prepare_api_call(self, **call: Any) -> dict[str, Any]:
        # By the class's name: `@component` makes a class anew, which `super()` does not know.
        arguments: dict[str, Any] = OpenAIChatGenerator._prepare_api_call(self, **call)
        body = {**(arguments.get("extra_body") or {}), "messages": arguments["messages"]}
        if isinstance(schema := arguments.get("response_format"), dict):
            del arguments["response_format"]
            body["response_format"] = schema
            # The other endpoint reads the reply into a class, and there is none.
            arguments = {"stream": False, **arguments, "openai_endpoint": "create"}
        return {**arguments, "messages": [], "extra_body": body}

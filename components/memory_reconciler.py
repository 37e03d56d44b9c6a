"""Compare new facts with what is remembered already."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from haystack import Document, component
from haystack.components.embedders import OpenAITextEmbedder

from components.async_only import async_only
from components.embedding_call import embed, open_embedder
from components.language import detect_locale, load_languages
from components.locale_prompt import LocalePrompt
from components.memory_scope import Scope
from components.memory_store import MemoryStore
from components.model_call import AsyncChatGenerator, close_model, open_model, structured_reply
from contracts.errors import UnreadableModelOutputError
from contracts.turn import TurnContext, Vector

_ACTIONS = ("add", "supersede", "drop")
Decision = dict[str, Any]


@component
class MemoryReconciler:
    """
    Decides for each new fact whether it is added, supersedes a memory, or is known already.

    Its cost does not grow with the number of memories: one embedding call for all facts, one search for the most
    similar memories of each, and one model call, only if any of those is similar at all. A fact that stands word for
    word among them is known without asking. The result is a plan: nothing is changed here.

    ### Usage example

    ```python
    from haystack.components.embedders import OpenAITextEmbedder
    from haystack.components.generators.chat import MockChatGenerator
    from haystack.utils import Secret

    from components.memory_reconciler import MemoryReconciler
    from components.memory_store import MemoryStore

    reconciler = MemoryReconciler(
        MemoryStore("http://127.0.0.1:6333"),
        OpenAITextEmbedder(api_key=Secret.from_token("unused"), model="multilingual-e5-small", prefix="passage: "),
        MockChatGenerator(),
        prompt_dir="writer/prompts/reconcile",
    )
    assert reconciler.top_k == 5
    ```
    """

    def __init__(
        self,
        memory_store: MemoryStore,
        embedder: OpenAITextEmbedder,
        chat_generator: AsyncChatGenerator,
        *,
        prompt_dir: str,
        top_k: int = 5,
        min_score: float = 0.5,
    ) -> None:
        """
        Load the prompt; nothing is opened here.

        :param memory_store: Where the memories are.
        :param embedder: Embedder with the model's prefix for stored texts: the vectors are stored with the facts.
        :param chat_generator: Model for the stage `reconcile`.
        :param prompt_dir: Folder of the prompt in four locales.
        :param top_k: Memories to compare each fact with, at least 1.
        :param min_score: Cosine similarity in [0, 1] from which a memory counts as similar.
        :raises ValueError: If a number is out of range.
        :raises ConfigurationError: If the prompt is not there in every locale.
        """
        if top_k < 1 or not 0 <= min_score <= 1:
            msg = f"need top_k >= 1 and 0 <= min_score <= 1, got {top_k=} and {min_score=}"
            raise ValueError(msg)
        self.memory_store = memory_store
        self.embedder = embedder
        self.chat_generator = chat_generator
        self.prompt_dir = prompt_dir
        self.top_k = top_k
        self.min_score = min_score
        self._prompt = LocalePrompt(prompt_dir, provides=("facts", "memories"))

    async def warm_up_async(self) -> None:
        """Load the language models, open the clients of embedder and model; the store opens itself."""
        await load_languages()
        await open_embedder(self.embedder)
        await open_model(self.chat_generator)

    async def close_async(self) -> None:
        """Close the clients and the store."""
        await self.embedder.close_async()
        await close_model(self.chat_generator)
        await self.memory_store.close()

    @component.output_types(plan=dict[str, Any])
    def run(self, facts: list[str], turn: TurnContext) -> dict[str, Any]:
        """Refuse to run: models and store are asked asynchronously."""
        raise async_only(self)

    @component.output_types(plan=dict[str, Any])
    async def run_async(self, facts: list[str], turn: TurnContext) -> dict[str, Any]:
        """
        Plan what to write.

        :param facts: New facts about the user, none of them blank.
        :param turn: Whose memory it is, and the run that the plan belongs to.
        :returns: `plan`: plain data in the shape of `contracts.payloads.WritePlan`.
        :raises UnreadableModelOutputError: If the model's decisions name a fact or memory that it was not shown, or
            contradict each other.
        :raises ModelUnavailableError: If the model cannot be asked now.
        :raises EmbedderUnavailableError: If the embedder cannot be asked now.
        :raises StoreUnavailableError: If the store cannot be asked now.
        :raises RejectedRequestError: If one of them rejects the request.
        :raises ValueError: If the turn has no user.
        """
        if turn.user_id is None:
            msg = "a turn without a user has no memory to write to"
            raise ValueError(msg)
        vectors = await embed(self.embedder, facts, dimension=self.memory_store.dimension)
        scope = Scope(turn.tenant_id, user_id=turn.user_id)
        nearest = await self.memory_store.nearest([Vector(vector) for vector in vectors], scope, self.top_k)
        known = [_states(fact, memories) for fact, memories in zip(facts, nearest, strict=True)]
        similar = {
            index: [memory for memory in memories if (memory.score or 0) >= self.min_score]
            for index, memories in enumerate(nearest)
            if not known[index]
        }
        decided = await self._decide(facts, similar, turn) if any(similar.values()) else {}
        decisions: list[Decision] = []
        for index in range(len(facts)):
            if known[index]:
                decisions.append(_decision(index, "drop"))
            else:
                decisions += decided.get(index) or [_decision(index, "add")]
        stored = [{"text": fact, "vector": vector} for fact, vector in zip(facts, vectors, strict=True)]
        return {"plan": {"run_id": turn.run_id, "facts": stored, "decisions": decisions}}

    async def _decide(
        self, facts: list[str], similar: dict[int, list[Document]], turn: TurnContext
    ) -> dict[int, list[Decision]]:
        """Ask the model; facts without a similar memory are shown too, for the others may be about the same."""
        memories = {memory.id: memory for found in similar.values() for memory in found}
        prompt = self._prompt.messages(
            detect_locale(facts[0], turn.locale),
            facts=[_line(fact=index, text=facts[index]) for index in similar],
            memories=[
                _line(memory=memory.id, text=memory.content, said=memory.meta["stated_at"][:10])
                for memory in memories.values()
            ],
        )
        reply = await structured_reply(self.chat_generator, prompt, schema_name="decisions", schema=_schema(similar))
        decided: dict[int, list[Decision]] = defaultdict(list)
        for decision in _read(reply, similar, memories):
            # Nothing that is stored resembles such a fact, so it repeats nothing.
            if decision["action"] != "drop" or similar[decision["fact"]]:
                decided[decision["fact"]].append(decision)
        return {index: _agreed(index, made) for index, made in decided.items()}


def _schema(facts: Iterable[int]) -> dict[str, Any]:
    """Give the schema of the reply; it names the facts, which small models lose count of."""
    decision = {
        "type": "object",
        "properties": {
            "fact": {"type": "integer", "enum": list(facts)},
            "action": {"type": "string", "enum": list(_ACTIONS)},
            "memory": {"type": ["string", "null"]},
        },
        "required": ["fact", "action", "memory"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"decisions": {"type": "array", "items": decision}},
        "required": ["decisions"],
        "additionalProperties": False,
    }


def _states(fact: str, memories: Sequence[Document]) -> bool:
    """Tell whether one of the memories says the same in the same words."""
    return _plain(fact) in {_plain(memory.content or "") for memory in memories}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")


def _line(**shown: Any) -> str:
    """Write data so that nothing in it can look like another line of the prompt."""
    return json.dumps(shown, ensure_ascii=False)


def _decision(fact: int, action: str, memory_id: str | None = None) -> Decision:
    return {"fact": fact, "action": action, "memory_id": memory_id}


def _read(reply: dict[str, Any], facts: dict[int, Any], memories: dict[str, Any]) -> list[Decision]:
    made = reply.get("decisions")
    if not isinstance(made, list):
        msg = "the reply to decisions has no list `decisions`"
        raise UnreadableModelOutputError(msg)
    return [_readable(decision, facts, memories) for decision in made]


def _readable(decision: Any, facts: dict[int, Any], memories: dict[str, Any]) -> Decision:
    if not isinstance(decision, dict):
        msg = "the reply to decisions has a decision that is no object"
        raise UnreadableModelOutputError(msg)
    fact, action, memory_id = decision.get("fact"), decision.get("action"), decision.get("memory") or None
    if action == "add":  # it names no memory; what small models write there has no meaning
        memory_id = None
    unknown = (
        ("fact", not isinstance(fact, int) or isinstance(fact, bool) or fact not in facts),
        ("action", action not in _ACTIONS),
        ("memory", memory_id is not None and (not isinstance(memory_id, str) or memory_id not in memories)),
        ("memory", action == "supersede" and memory_id is None),
    )
    if wrong := [name for name, is_wrong in unknown if is_wrong]:
        msg = f"the reply to decisions names a {wrong[0]} that it was not shown"
        raise UnreadableModelOutputError(msg)
    return _decision(int(fact), str(action), memory_id if action == "supersede" else None)  # type: ignore[arg-type]


def _agreed(fact: int, made: list[Decision]) -> list[Decision]:
    """Settle several decisions on one fact: it may supersede several memories, but not be dropped as well."""
    actions = {decision["action"] for decision in made}
    if "drop" in actions and len(actions) > 1:
        msg = f"the reply to decisions both drops and keeps fact {fact}"
        raise UnreadableModelOutputError(msg)
    if "supersede" in actions:
        return [decision for decision in made if decision["action"] == "supersede"]
    return made[:1]

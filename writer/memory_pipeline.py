"""The writer's Haystack pipeline, run in two passes with the plan stored between them."""

from haystack import Pipeline

from components.memory_store import MemoryStore
from components.pipeline_file import LoadedPipeline
from contracts.payloads import ConversationTurn, WritePlan
from contracts.turn import Agent, TurnContext

_WRITER = "memory_writer"


class MemoryPipeline:
    """
    Makes a plan of a turn (extraction, reconciliation) and carries plans out.

    The second pass runs the component `memory_writer` alone: between the two, the plan is stored where every writer
    finds it, so that a redelivery asks no model again.
    """

    def __init__(self, loaded: LoadedPipeline) -> None:
        """
        Take a loaded pipeline apart.

        :param loaded: It has the inputs `question`, `answer` and `turn`, the output `plan`, and a `memory_writer`.
        """
        self._loaded = loaded
        self._pipeline: Pipeline = loaded.pipeline
        self._writer = loaded.pipeline.get_component(_WRITER)

    @property
    def memory_store(self) -> MemoryStore:
        """The store that plans are carried out on."""
        store: MemoryStore = self._writer.memory_store  # type: ignore[attr-defined]
        return store

    async def open(self) -> None:
        """
        Open what the components hold.

        :raises StoreUnavailableError: If Qdrant does not answer.
        :raises ConfigurationError: If the collection is one of another embedding model.
        """
        await self._pipeline.warm_up_async()
        await self.memory_store.open()

    async def close(self) -> None:
        """Release what the components hold."""
        await self._pipeline.close_async()
        await self.memory_store.close()

    async def plan(self, turn: ConversationTurn) -> WritePlan:
        """
        Extract facts and compare them with what is stored; changes nothing.

        :raises HayrecallError: As the components do.
        """
        data = self._loaded.run_data(question=turn.question, answer=turn.answer, turn=_context(turn))
        result = await self._pipeline.run_async(data, include_outputs_from=self._loaded.reported)
        return WritePlan.model_validate(self._loaded.output(result, "plan"))

    async def write(self, turn: ConversationTurn, plan: WritePlan) -> int:
        """
        Store what a plan says; doing it twice is one effect.

        :returns: How many memories it stores.
        :raises HayrecallError: As the store does.
        """
        result = await self._writer.run_async(  # type: ignore[attr-defined]
            question=turn.question, turn=_context(turn), plan=plan.model_dump(mode="json")
        )
        written: int = result["written"]
        return written


def _context(turn: ConversationTurn) -> TurnContext:
    return TurnContext(
        tenant_id=turn.tenant_id,
        user_id=turn.user_id,
        run_id=str(turn.run_id),
        agent=Agent(turn.agent.id, turn.agent.name, turn.agent.description),
        locale=turn.locale,
        said_at=turn.said_at,
        time_zone=turn.time_zone,
        thread_id=turn.thread_id,
        message_id=turn.message_id,
    )

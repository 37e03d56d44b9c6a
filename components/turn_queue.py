"""The queue of turns to learn from, as components and the server see it."""

from pathlib import Path
from typing import Any, Self

from haystack import default_from_dict, default_to_dict, logging

from components.bucket import Bucket
from components.dead_letters import DeadLetterQueue
from components.erasure import erase
from components.memory_store import MemoryStore
from components.queue_parts import QueueParts, QueueSettings
from components.turn_delivery import Published
from contracts.errors import ConfigurationError, QueueUnavailableError
from contracts.payloads import ConversationTurn, EraseOrder, UserState, read_turn
from contracts.queue import TURNS_STREAM
from contracts.turn import TurnContext

logger = logging.getLogger(__name__)


class TurnQueue:
    """
    Publishes turns to NATS JetStream, and answers what is known of turns on their way.

    A published turn is durable when the call returns: in NATS, or, while NATS is away, slow or full, in an outbox on
    this host's disk that is relayed as soon as NATS is back, in the order of each user. Queues of the same
    address, folder, replicas and size in one event loop share one connection and one outbox.

    ### Usage example

    ```python
    from components.turn_queue import TurnQueue

    queue = TurnQueue("nats://127.0.0.1:4222", data_dir="/var/lib/hayrecall")  # nothing is opened yet
    assert TurnQueue.from_dict(queue.to_dict()).publish_timeout_seconds == 0.25
    ```
    """

    def __init__(
        self,
        url: str | None,
        data_dir: str | Path,
        *,
        replicas: int = 1,
        publish_timeout_seconds: float = 0.25,
        read_timeout_seconds: float = 0.2,
        turns_max_bytes: int | None = None,
    ) -> None:
        """
        Configure the queue; nothing is opened here.

        :param url: Address of NATS; several, separated by commas, for a cluster.
        :param data_dir: Folder on a disk that outlives the process; the outbox lies in it.
        :param replicas: Copies of each stream and bucket, 1 to 5; 3 in a three-node cluster.
        :param publish_timeout_seconds: Longest that a turn waits for NATS before it goes to the outbox, above 0.
        :param read_timeout_seconds: Longest that a turn waits for what is read from the queue, above 0.
        :param turns_max_bytes: Most that may wait in NATS; beyond it, turns wait in the outboxes. None = 128 MiB at
            the first start, later what the stream has.
        :raises ValueError: If a number is out of range.
        """
        if not 1 <= replicas <= 5 or publish_timeout_seconds <= 0 or read_timeout_seconds <= 0:  # noqa: PLR2004
            msg = (
                "need replicas from 1 to 5, publish_timeout_seconds > 0 and read_timeout_seconds > 0, "
                f"got {replicas=}, {publish_timeout_seconds=} and {read_timeout_seconds=}"
            )
            raise ValueError(msg)
        self.url = url
        self.data_dir = str(data_dir)
        self.replicas = replicas
        self.publish_timeout_seconds = publish_timeout_seconds
        self.read_timeout_seconds = read_timeout_seconds
        self.turns_max_bytes = turns_max_bytes
        self._parts: QueueParts | None = None

    def to_dict(self) -> dict[str, Any]:
        """Serialize for a pipeline's YAML."""
        return default_to_dict(
            self,
            url=self.url,
            data_dir=self.data_dir,
            replicas=self.replicas,
            publish_timeout_seconds=self.publish_timeout_seconds,
            read_timeout_seconds=self.read_timeout_seconds,
            turns_max_bytes=self.turns_max_bytes,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Deserialize from a pipeline's YAML."""
        return default_from_dict(cls, data)

    async def open(self) -> None:
        """
        Open the outbox and connect to NATS; when it is away, go on without it, and connect as soon as it is there.

        :raises ConfigurationError: If there is no address.
        :raises QueueUnavailableError: If the outbox cannot be used.
        """
        await self._opened()

    async def close(self) -> None:
        """Wait until everything that is being published is durable, and close."""
        if self._parts is not None:
            parts, self._parts = self._parts, None
            await parts.release()

    # --- storing -----------------------------------------------------------------------------------------------------

    async def record_intent(self, turn: TurnContext, question: str) -> None:
        """
        Keep the question on this host's disk before its answer is written.

        If the process dies before `publish`, the turn is stored with the question alone.

        :param turn: Who asks; must have a user.
        :param question: The condensed question.
        :raises QueueUnavailableError: If the disk did not take it.
        """
        parts = await self._opened()
        await parts.outbox.add_intent(parts.delivery.row(ConversationTurn.of(turn, question)))

    async def intent_written(self, run_id: str) -> None:
        """
        Wait until the intent of a run, if one is being written, is on the disk or was refused by it.

        The answer is written meanwhile; whoever shows it waits here first, so that nothing that a user saw is unknown
        after a crash.

        :param run_id: The run.
        """
        await (await self._opened()).outbox.intent_written(run_id)

    async def publish(self, turn: ConversationTurn) -> Published:
        """
        Return when the turn is durable; goes on to the end even if the caller is cancelled.

        :param turn: What was said.
        :returns: `stored`, `duplicate` (NATS knew the run) or `outbox`.
        :raises QueueUnavailableError: If neither NATS nor the disk took it.
        """
        parts = await self._opened()
        return await parts.finish(self._publish(parts, turn))

    async def promote_intent(self, run_id: str, answer: str | None) -> Published | None:
        """
        Store the turn of a run that ended early: its client is gone, or the process is about to stop.

        :param run_id: The run.
        :param answer: The answer, if it was complete.
        :returns: As `publish`; None if the run left no intent, because nothing is to be stored or all is stored.
        :raises QueueUnavailableError: If neither NATS nor the disk took it; the intent stays.
        """
        parts = await self._opened()
        return await parts.finish(self._promote(parts, run_id, answer))

    async def drop_intent(self, run_id: str) -> None:
        """
        Forget a run's question: it ended without a turn to store.

        :param run_id: The run.
        """
        (await self._opened()).outbox.settle_intent(run_id)

    async def _publish(self, parts: QueueParts, turn: ConversationTurn) -> Published:
        result = await parts.delivery.deliver(parts.delivery.row(turn), budget_seconds=self.publish_timeout_seconds)
        parts.outbox.settle_intent(str(turn.run_id))
        return result

    async def _promote(self, parts: QueueParts, run_id: str, answer: str | None) -> Published | None:
        intent = await parts.outbox.intent(run_id)
        if intent is None:
            return None
        turn = read_turn(intent.body)
        if not isinstance(turn, ConversationTurn):
            return None
        return await self._publish(parts, turn.with_answer(answer))

    # --- reading -----------------------------------------------------------------------------------------------------

    async def pending(self, tenant_id: str, user_id: str, limit: int = 20) -> list[ConversationTurn]:
        """
        Read the user's newest turns that no writer has applied yet, in NATS and in the outbox.

        :param tenant_id: The tenant.
        :param user_id: The user.
        :param limit: Most turns.
        :returns: In the order in which they were said; what cannot be read in time is left out.
        """
        pending = (await self._opened()).pending
        return await pending.of(tenant_id, user_id, limit=limit, timeout_seconds=self.read_timeout_seconds)

    async def user_state(self, tenant_id: str, user_id: str) -> UserState:
        """
        Tell what a user decided about learning and erasing; never fails.

        :returns: The state of at most a second ago; while NATS is away, the last known one, else the default.
        """
        states = (await self._opened()).states
        return await states.get(tenant_id, user_id, timeout_seconds=self.read_timeout_seconds)

    async def set_learning(self, tenant_id: str, user_id: str, learning: bool) -> UserState:
        """
        Switch learning on or off.

        :returns: The new state.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        return await (await self._opened()).states.set_learning(tenant_id, user_id, learning=learning)

    async def erase(self, tenant_id: str, user_id: str, *, memories: MemoryStore) -> EraseOrder:
        """
        Forget everything about a user, also what is still on its way; see `components.erasure`.

        :param memories: Where the user's memories are.
        :returns: The order that took the place of what was queued.
        :raises QueueUnavailableError: If NATS is away: nothing is claimed to be erased; ask again.
        :raises StoreUnavailableError: If the memories could not be deleted; ask again.
        """
        parts = await self._opened()
        return await parts.finish(erase(parts, tenant_id, user_id, memories=memories))

    async def ready(self) -> dict[str, bool]:
        """Tell which parts answer: `nats`, `outbox`."""
        parts = await self._opened()
        try:
            await parts.outbox.depth()
        except QueueUnavailableError:
            return {"nats": parts.connection.is_available, "outbox": False}
        return {"nats": parts.connection.is_available, "outbox": parts.is_relaying}

    async def depth(self) -> dict[str, float]:
        """
        Count what waits.

        :returns: `queued`: turns in NATS; `outbox` and `outbox_oldest_seconds`: those on this host's disk.
        :raises QueueUnavailableError: If NATS or the disk does not answer.
        """
        parts = await self._opened()
        waiting, oldest_seconds = await parts.outbox.depth()
        queued = (await parts.connection.stream_info(TURNS_STREAM))["state"]["messages"]
        return {"queued": queued, "outbox": waiting, "outbox_oldest_seconds": oldest_seconds}

    async def bucket(self, name: str) -> Bucket:
        """
        Give a bucket on the queue's connection, for a store that lives beside the turns.

        :param name: One of the buckets of contracts/queue.py.
        """
        return Bucket((await self._opened()).connection, name)

    async def dead_letters(self) -> DeadLetterQueue:
        """Give what was given up, on the queue's connection."""
        return DeadLetterQueue((await self._opened()).connection)

    async def _opened(self) -> QueueParts:
        if self._parts is None:
            if not self.url:
                msg = "the queue has no address: set HAYRECALL_NATS_URL"
                raise ConfigurationError(msg)
            settings = QueueSettings(self.url, self.data_dir, self.replicas, self.turns_max_bytes)
            self._parts = QueueParts.acquire(settings)
        parts = self._parts
        await parts.opened()
        return parts

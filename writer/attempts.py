"""How often a turn was tried: stored, because NATS's own count of deliveries counts what is nobody's fault, too."""

from typing import Self

from pydantic import BaseModel, ConfigDict

from components.bucket import Bucket
from writer.delivery import is_outage
from writer.streams import Delivery


class Attempts(BaseModel):
    """
    What is known about the attempts at one message of the turns stream.

    `failures` are the turn's own, `kills` those of them that ended the writer, `outages` those in a row that were
    nobody's fault. `running` stays true only where a delivery ended without a decision.
    """

    model_config = ConfigDict(frozen=True)

    failures: int = 0
    kills: int = 0
    outages: int = 0
    running: bool = False

    def started(self) -> Self:
        """Note that the handling begins."""
        return self.model_copy(update={"running": True})

    def ended(self) -> Self:
        """Note that it ended with a decision."""
        return self.model_copy(update={"running": False})

    def failed(self, error: Exception) -> Self:
        """Count a failed attempt under what caused it."""
        if is_outage(error):
            return self.model_copy(update={"outages": self.outages + 1, "running": False})
        return self.model_copy(update={"failures": self.failures + 1, "outages": 0, "running": False})

    def killed(self) -> Self:
        """Count a delivery that ended without a decision."""
        return self.model_copy(update={"failures": self.failures + 1, "kills": self.kills + 1, "running": False})


class AttemptLog:
    """Keeps the attempts at each message; nothing is written about one that succeeds at once."""

    def __init__(self, bucket: Bucket) -> None:
        """
        Remember the bucket.

        :param bucket: That of the plans, which forgets after days what nobody dropped.
        """
        self._bucket = bucket

    async def recall(self, delivery: Delivery) -> Attempts:
        """
        Tell what was tried before this delivery; one that ended without a decision is counted as a kill.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        stored = await self._bucket.get(_key(delivery))
        if stored is None:
            return Attempts() if delivery.deliveries == 1 else Attempts().killed()
        attempts = Attempts.model_validate_json(stored.body)
        return attempts.killed() if attempts.running else attempts

    async def keep(self, delivery: Delivery, attempts: Attempts) -> None:
        """
        Store what is known now.

        :raises QueueUnavailableError: If NATS did not confirm.
        """
        await self._bucket.put(_key(delivery), attempts.model_dump_json().encode())

    async def forget(self, delivery: Delivery) -> None:
        """
        Drop what is known.

        :raises QueueUnavailableError: If NATS did not confirm.
        """
        if delivery.deliveries > 1:
            await self._bucket.delete(_key(delivery))


def _key(delivery: Delivery) -> str:
    return f"attempts.{delivery.sequence}"

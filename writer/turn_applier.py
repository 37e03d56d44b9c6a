"""Apply one turn to its user's memory, exactly once in effect."""

from datetime import UTC, datetime
from typing import Literal, Protocol

from components.memory_scope import Scope
from components.user_states import UserStates
from contracts.errors import ErasedError, PoisonError, TurnError
from contracts.payloads import ConversationTurn, EraseOrder, WritePlan
from writer.dead_letters import DeadLetters
from writer.delivery import Retry
from writer.lease import Lease
from writer.metrics import STAGE_SECONDS
from writer.plans import RunLedger

Done = Literal["stored", "duplicate", "not_learned", "erased"]


class Memorizer(Protocol):
    """The pipeline that makes a plan of a turn, and carries one out."""

    async def plan(self, turn: ConversationTurn) -> WritePlan:
        """Extract facts and compare them with what is stored; changes nothing."""

    async def write(self, turn: ConversationTurn, plan: WritePlan) -> int:
        """Store what the plan says; doing it twice is one effect."""


class Memories(Protocol):
    """What an applier needs of the memory store."""

    async def has_run(self, scope: Scope, run_id: str) -> bool:
        """Tell whether any memory came from a run."""

    async def delete_run(self, scope: Scope, run_id: str) -> None:
        """Delete what came from a run."""

    async def delete_all(self, scope: Scope) -> None:
        """Delete everything of an owner."""


class TurnApplier:
    """
    Plans a turn once, applies the plan, and leaves a done-marker; any step may be the last one of a killed process.

    The erase epoch is read before and after the write: whatever was said before it leaves nothing behind.
    """

    def __init__(
        self,
        *,
        ledger: RunLedger,
        users: UserStates,
        memorizer: Memorizer,
        memories: Memories,
        dead_letters: DeadLetters,
        erase_settles_seconds: float = 3,
    ) -> None:
        """
        Hold what it works with.

        :param ledger: Plans and done-markers.
        :param users: Erase epochs and learning switches.
        :param memorizer: The writer pipeline.
        :param memories: The memory store.
        :param dead_letters: What an erase order empties for its user once more.
        :param erase_settles_seconds: An erase order waits so long after the erase: a writer that was killed in the
            middle of a write may have sent it just before, and its turn is gone from the queue.
        """
        self._ledger = ledger
        self._users = users
        self._memorizer = memorizer
        self._memories = memories
        self._dead_letters = dead_letters
        self._erase_settles_seconds = erase_settles_seconds

    async def apply(self, turn: ConversationTurn, lease: Lease) -> Done:
        """
        Bring a turn into its user's memory.

        :param turn: The turn.
        :param lease: Checked right before every effect.
        :returns: How it ended.
        :raises ErasedError: If the user erased everything after the turn was said; nothing of it is left.
        :raises HayrecallError: As the pipeline, the store and the queue do.
        """
        try:
            try:
                return await self._apply(turn, lease)
            except (TurnError, PoisonError):
                await self._may_learn(turn)  # what was erased meanwhile must not come to lie among the dead letters
                raise
        except ErasedError:
            await self._ledger.drop_plan(turn)
            raise

    async def _apply(self, turn: ConversationTurn, lease: Lease) -> Done:
        if await self._ledger.is_done(turn):
            await self._ledger.drop_plan(turn)
            return "duplicate"
        if not await self._may_learn(turn):
            return await self._finish(turn, lease, "not_learned")
        plan = await self._ledger.plan(turn)
        if plan is None:
            if await self._memories.has_run(_scope(turn), str(turn.run_id)):  # its plan and marker are long gone
                return await self._finish(turn, lease, "duplicate")
            with STAGE_SECONDS.labels("plan").time():
                plan = await self._memorizer.plan(turn)
            lease.check()
            plan = await self._ledger.keep_plan(turn, plan)
        if not await self._may_learn(turn):
            return await self._finish(turn, lease, "not_learned")
        if await self._ledger.is_done(turn):  # we were frozen meanwhile: what came later must not be undone
            return "duplicate"
        lease.check()
        with STAGE_SECONDS.labels("write").time():
            await self._memorizer.write(turn, plan)
        try:
            await self._may_learn(turn)
        except ErasedError:
            await self._memories.delete_run(_scope(turn), str(turn.run_id))
            raise
        return await self._finish(turn, lease, "stored")

    async def _may_learn(self, turn: ConversationTurn) -> bool:
        state = await self._users.read(turn.tenant_id, turn.user_id)
        if state.forgets(turn.said_at):
            msg = f"the user of run {turn.run_id} erased their memory after it"
            raise ErasedError(msg)
        return state.learning

    async def _finish(self, turn: ConversationTurn, lease: Lease, done: Done) -> Done:
        lease.check()
        await self._ledger.mark_done(turn)
        await self._ledger.drop_plan(turn)
        return done

    async def erase(self, order: EraseOrder) -> Done | Retry:
        """
        Carry out an erase order that took the place of its user's queued turns.

        Everything that comes behind it in the queue was not written yet, so all that is stored was said before.

        :param order: The order.
        :returns: `erased`, or to come back when the last write before it has settled.
        :raises HayrecallError: As the store and the queue do.
        """
        age_seconds = (datetime.now(UTC) - order.erased_at).total_seconds()
        if 0 <= age_seconds < self._erase_settles_seconds:  # below 0: clocks differ, it will not get better
            return Retry(self._erase_settles_seconds - age_seconds)
        await self._ledger.drop_plans(order)
        await self._dead_letters.drop(order.tenant_id, order.user_id)
        await self._memories.delete_all(Scope(order.tenant_id, user_id=order.user_id))
        return "erased"


def _scope(turn: ConversationTurn) -> Scope:
    return Scope(turn.tenant_id, user_id=turn.user_id)

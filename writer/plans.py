"""What NATS remembers about runs, so that a turn has one effect however often it is delivered."""

from pydantic import ValidationError

from components.bucket import Bucket
from contracts.errors import PayloadError
from contracts.payloads import ConversationTurn, EraseOrder, WritePlan
from contracts.queue import done_key, plan_key, user_key


class RunLedger:
    """Plans, made once per run, and done-markers."""

    def __init__(self, *, plans: Bucket, done: Bucket) -> None:
        """
        Remember the buckets.

        :param plans: `hayrecall_plans`.
        :param done: `hayrecall_done`.
        """
        self._plans = plans
        self._done = done

    async def is_done(self, turn: ConversationTurn) -> bool:
        """Tell whether the run had its effect."""
        return await self._done.get(done_key(turn.run_id)) is not None

    async def mark_done(self, turn: ConversationTurn) -> None:
        """Note that the run had its effect; the marker holds no text."""
        await self._done.put(done_key(turn.run_id), b"1")

    async def plan(self, turn: ConversationTurn) -> WritePlan | None:
        """
        Give the plan that an earlier delivery made.

        :raises PayloadError: If it is of a version that this writer does not know.
        """
        stored = await self._plans.get(_plan_key(turn))
        if stored is None:
            return None
        try:
            return WritePlan.model_validate_json(stored.body)
        except ValidationError as error:
            msg = f"the stored plan of run {turn.run_id} cannot be read ({error.error_count()} faults)"
            raise PayloadError(msg) from None

    async def keep_plan(self, turn: ConversationTurn, plan: WritePlan) -> WritePlan:
        """
        Store a plan, unless another delivery was first.

        :returns: The plan that holds.
        """
        if await self._plans.create(_plan_key(turn), plan.model_dump_json().encode()):
            return plan
        return await self.plan(turn) or plan

    async def drop_plan(self, turn: ConversationTurn) -> None:
        """Forget the plan."""
        await self._plans.delete(_plan_key(turn))

    async def drop_plans(self, order: EraseOrder) -> None:
        """Forget every plan of a user."""
        await self._plans.delete(f"{user_key(order.tenant_id, order.user_id)}.*")


def _plan_key(turn: ConversationTurn) -> str:
    return plan_key(turn.tenant_id, turn.user_id, turn.run_id)

"""However often a turn is delivered, and whoever stops in between, it has one effect."""

import asyncio
from uuid import uuid4

from components.bucket import Bucket
from components.memory_scope import Scope
from components.pipeline_file import load_pipeline
from components.user_states import UserStates
from contracts.manifest import Manifest
from contracts.payloads import Decision, Fact, WritePlan
from contracts.queue import DONE_BUCKET, PLANS_BUCKET, plan_key
from tests.scripted_model_server import embed
from tests.writer_world import eventually, turn
from writer.alerts import Alerts
from writer.dead_letters import DeadLetters
from writer.lease import held
from writer.memory_pipeline import MemoryPipeline
from writer.plans import RunLedger
from writer.turn_applier import TurnApplier


async def test_a_turn_published_again_is_stored_once_inside_and_after_the_duplicate_window(world):
    async with world.writer():
        said = await world.say("twice", "factOnce")
        body = said.model_dump_json().encode()
        assert (await world.publish("twice", body, run_id=str(said.run_id)))["duplicate"]
        await world.wait_for_texts("twice", ["factOnce"])
        await world.publish("twice", body)  # under another message id, as after the window
        await world.say("twice", "factLater")
        await world.wait_for_texts("twice", ["factOnce", "factLater"])
    assert len(world.model_server.calls("extract")) == 2


async def test_five_concurrent_deliveries_of_a_run_leave_one_set_of_memories(world):
    said = turn("fivefold", "factA and factB")
    pipeline = MemoryPipeline(load_pipeline(Manifest.load(world.settings()).run_by("writer")))
    applier = _applier(world, pipeline)

    async def deliver():
        async with held(_heartbeat, 5) as lease:
            return await applier.apply(said, lease)

    ends = await asyncio.gather(*(deliver() for _ in range(5)))
    await pipeline.close()
    assert await world.texts("fivefold") == ["factA", "factB"]
    assert set(ends) <= {"stored", "duplicate"}
    assert "stored" in ends


async def _heartbeat():
    pass


def _applier(world, pipeline):
    return TurnApplier(
        ledger=RunLedger(plans=Bucket(world.connection, PLANS_BUCKET), done=Bucket(world.connection, DONE_BUCKET)),
        users=UserStates(world.connection),
        memorizer=pipeline,
        memories=pipeline.memory_store,
        dead_letters=DeadLetters(world.connection, Alerts(None)),
    )


async def test_a_plan_left_by_a_killed_writer_is_carried_out_without_asking_a_model(world):
    said = turn("planned", "factAnything")
    plan = WritePlan(
        run_id=said.run_id,
        facts=[Fact(text="factPlanned", vector=tuple(embed("factPlanned")))],
        decisions=[Decision(fact=0, action="add")],
    )
    plans = Bucket(world.connection, PLANS_BUCKET)
    await plans.put(plan_key("default", "planned", said.run_id), plan.model_dump_json().encode())
    await world.publish("planned", said.model_dump_json().encode(), run_id=str(said.run_id))
    async with world.writer():
        await world.wait_for_texts("planned", ["factPlanned"])
        await eventually(lambda: _dropped(plans, said))
    assert world.model_server.calls("extract") == []


async def _dropped(plans, said):
    return await plans.get(plan_key("default", said.user_id, said.run_id)) is None


async def test_a_run_whose_plan_and_marker_expired_is_known_by_its_memory(world):
    async with world.writer():
        said = await world.say("ancient", "factAncient")
        await world.wait_for_texts("ancient", ["factAncient"])
        await eventually(lambda: _drained(world, "ancient"))
        await Bucket(world.connection, DONE_BUCKET).delete(str(said.run_id))
        await world.publish("ancient", said.model_dump_json().encode())
        await eventually(lambda: _drained(world, "ancient"))
        assert await world.texts("ancient") == ["factAncient"]
    assert len(world.model_server.calls("extract")) == 1


async def _drained(world, user_id):
    return await world.queued(user_id) == 0


async def test_a_memory_that_its_user_deleted_does_not_come_back_with_a_redelivery(world):
    async with world.writer():
        said = await world.say("regretful", "factRegret")
        await world.wait_for_texts("regretful", ["factRegret"])
        await eventually(lambda: _drained(world, "regretful"))
        await world.memory_store.delete_all(Scope("default", user_id="regretful"))
        await world.publish("regretful", said.model_dump_json().encode())
        await eventually(lambda: _drained(world, "regretful"))
    assert await world.texts("regretful") == []


async def test_a_model_that_answers_after_twice_the_ack_wait_is_asked_once(world):
    world.model_server.latency["extract"] = 3.5
    async with world.writer(writer_ack_wait_seconds=1.5), world.writer(writer_ack_wait_seconds=1.5):
        await world.say("slow", "factSlow")
        await world.wait_for_texts("slow", ["factSlow"])
    assert len(world.model_server.calls("extract")) == 1


async def test_a_stopping_writer_finishes_what_it_began_and_hands_over_the_rest_at_once(world):
    world.model_server.latency["extract"] = 1
    users = [f"handover-{uuid4()}" for _ in range(6)]
    async with world.writer(writer_ack_wait_seconds=30, writer_concurrency=2):
        for user in users:
            await world.say(user, "factHandedOver")
        await eventually(lambda: _asked(world, 2))
    assert len(world.model_server.calls("extract")) == 2
    assert not any(call.cancelled for call in world.model_server.calls("extract"))
    world.model_server.latency["extract"] = 0
    async with world.writer(writer_ack_wait_seconds=30):
        for user in users:
            await world.wait_for_texts(user, ["factHandedOver"], seconds=20)
    assert len(world.model_server.calls("extract")) == 6


async def _asked(world, count):
    return len(world.model_server.calls("extract")) >= count


async def test_what_outlasts_the_grace_of_a_stop_is_taken_over_at_once(world):
    world.model_server.latency["extract"] = 30
    async with world.writer(writer_ack_wait_seconds=30, writer_grace_seconds=0.2):
        await world.say("cut off", "factCutOff")
        await eventually(lambda: _asked(world, 1))
    world.model_server.latency["extract"] = 0
    async with world.writer(writer_ack_wait_seconds=30):
        await world.wait_for_texts("cut off", ["factCutOff"], seconds=20)
    assert await world.connection.subjects("KV_hayrecall_plans", ">") == []


async def test_one_writer_handles_no_more_turns_at_a_time_than_it_may(world):
    world.model_server.latency["extract"] = 0.2
    async with world.writer(writer_concurrency=3):
        for number in range(12):
            await world.say(f"crowd-{number}", "factCrowd")
        await world.drained()
    calls = world.model_server.calls("extract")
    events = sorted([(call.started_at, 1) for call in calls] + [(call.ended_at, -1) for call in calls])
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    assert (len(calls), most) == (12, 3)

"""Documents go through the queue once, whole and in order, whatever happens to the workers."""

import asyncio
import os
import signal
import subprocess
import sys

import httpx
import pytest

from components.body_store import BodyStore
from components.document_access import in_tenant
from contracts.errors import ConfigurationError
from contracts.ingest_queue import INGEST_FILES_BUCKET, INGEST_STREAM, job_subject
from contracts.queue import BODY_HEADER
from contracts.settings import Settings
from hayrecall.local.ingest_queue import submit
from tests.scripted_model_server import Failure
from tests.writer_world import eventually
from writer.lease import held

pytestmark = [pytest.mark.integration, pytest.mark.acceptance]


def parts(count: int, word: str = "Text") -> bytes:
    return "\n\n".join(f"# Part {number}\n\n{word} of part {number}." for number in range(count)).encode()


def embedded(world, word: str) -> int:
    return sum(word in text for call in world.model_server.calls("embed") for text in call.body["input"])


async def test_a_job_whose_worker_is_killed_is_done_by_another_once_and_whole(world):
    world.model_server.latency["embed"] = 0.4
    (victim,) = await world.workers(1)
    sequence = await world.submit("a.md", parts(96))

    async def half_way() -> bool:
        return 0 < len(await world.passages()) < 96

    await eventually(half_way)
    victim.kill()
    assert await world.jobs.depth() == 1
    world.model_server.latency["embed"] = 0
    await world.workers(2)
    result = await world.result("a.md", sequence)

    assert (result.status, result.passages) == ("stored", 96)
    assert len(await world.passages()) == 96
    assert await world.jobs.dead() == 0
    await world.nothing_left()


async def test_jobs_for_one_document_never_overlap_and_the_newest_content_wins(world):
    world.model_server.latency["embed"] = 0.8
    await world.workers(2)
    await world.submit("a.md", parts(40, "Old"))

    async def begun() -> bool:
        return embedded(world, "Old") > 0

    await eventually(begun)
    skipped = await world.submit("a.md", parts(20, "Middle"))
    last = await world.submit("a.md", parts(10, "New"))
    other = await world.submit("b.md", b"Something else.")

    assert (await world.result("b.md", other)).status == "stored"
    result = await world.result("a.md", last)
    assert skipped < last
    assert (result.status, result.passages) == ("stored", 10)
    assert len(await world.passages()) == 11
    assert not any("Old" in text for text in await world.passages())
    assert embedded(world, "Middle") == 0
    calls = [call for call in world.model_server.calls("embed") if "Something" not in call.text]
    ended_old = max(call.ended_at for call in calls if "Old" in call.text)
    assert all(call.started_at >= ended_old for call in calls if "New" in call.text)
    await world.nothing_left()


async def test_handing_in_again_is_one_job_while_it_waits_and_a_new_one_later(world):
    first = await world.submit("a.md", parts(3))
    assert await world.submit("a.md", parts(3)) == first
    assert await world.jobs.depth() == 1
    changed = await world.submit("a.md", parts(4))
    back = await world.submit("a.md", parts(3))
    assert first < changed < back  # it was changed and changed back: that is no repetition

    async with world.worker() as url:
        assert (await world.result("a.md", back)).passages == 3
        again = await world.submit("a.md", parts(3))
        assert again > back
        assert (await world.result("a.md", again)).status == "unchanged"
        await world.index.delete(in_tenant(world.tenant))
        assert (await world.result("a.md", await world.submit("a.md", parts(3)))).status == "stored"
        assert len(await world.passages()) == 3
        await world.nothing_left()
        counted = (await asyncio.to_thread(httpx.get, f"{url}/metrics")).text
        assert (await asyncio.to_thread(httpx.get, f"{url}/readyz")).json()["ready"]
    counts = {"stored": 2, "unchanged": 1, "superseded": 2}
    for line in (
        *(f'hayrecall_ingest_jobs_total{{end="{end}"}} {count}.0' for end, count in counts.items()),
        "hayrecall_ingest_queued_jobs 0.0",
        "hayrecall_ingest_dead_letters 0.0",
        "hayrecall_ingest_passages_total 6.0",
    ):
        assert line in counted.splitlines()


async def test_a_document_that_ends_its_worker_is_given_up_with_a_reason_and_may_be_handed_in_again(world):
    running = []

    def kill_or_answer(body):
        if "Deadly" in str(body["input"]):
            os.kill(running[-1].pid, signal.SIGKILL)
        return "ok"

    world.model_server.default("embed", kill_or_answer)
    deadly = await world.submit("deadly.md", b"Deadly text.")

    async def given_up() -> bool:
        if not running or not running[-1].is_alive:
            running.append(world.spawn(writer_max_attempts=2, writer_ack_wait_seconds=1))
        return await world.jobs.dead() == 1

    await eventually(given_up, seconds=40)
    result = await world.result("deadly.md", deadly)
    assert result.status == "dead"
    assert result.reason.startswith("killed: ")
    await world.nothing_left()

    running[-1].kill()  # with two attempts and leases of a second, a busy machine alone could end a job
    world.model_server.default("embed", "ok")
    await world.workers(1)
    result = await world.result("deadly.md", await world.submit("deadly.md", b"Deadly text."))
    assert (result.status, result.reason) == ("stored", "")
    assert await world.jobs.dead() == 0


async def test_a_job_that_ended_leaves_no_content_though_its_worker_dies_before_it_can_say_so(world):
    sequence = await world.submit("a.md", parts(3))
    async with world.handler() as (handler, delivery):
        async with held(delivery.heartbeat, world.settings().writer_ack_wait_seconds) as lease:
            assert await handler.handle(delivery, lease) == "stored"
        result = await world.result("a.md", sequence)
        assert result.passages == 3
        assert await world.jobs.depth() == 1
        assert (await world.connection.stream_info(f"OBJ_{INGEST_FILES_BUCKET}"))["state"]["messages"] == 0
        calls = len(world.model_server.calls("embed"))

        async with held(delivery.heartbeat, world.settings().writer_ack_wait_seconds) as lease:
            assert await handler.handle(delivery, lease) == "stored"
        await delivery.acknowledge()
    assert len(world.model_server.calls("embed")) == calls
    assert await world.result("a.md", sequence) == result


async def test_what_is_no_job_is_given_up_at_once_and_an_outage_is_waited_for(world):
    world.model_server.default("embed", Failure(401))
    waiting = await world.submit("waits.md", b"Text that waits.")
    lost = await world.submit("lost.md", b"Text that is lost.")
    message = await world.connection.read_message(INGEST_STREAM, sequence=lost)
    await BodyStore(world.connection, INGEST_FILES_BUCKET).delete(message.headers[BODY_HEADER])
    garbage = await world.connection.publish(job_subject(world.tenant, "garbage.md"), b"garbage")
    async with world.worker(writer_max_attempts=1):
        result = await world.result("garbage.md", garbage["seq"])
        assert (result.status, result.reason.partition(":")[0]) == ("dead", "invalid")
        result = await world.result("lost.md", lost)
        assert (result.status, result.reason.partition(" of")[0]) == ("dead", "invalid: missing or damaged body: 0")
        assert await world.jobs.dead() == 2

        async def tried_again() -> bool:
            return len(world.model_server.calls("embed")) > 2 and await world.jobs.depth() == 1

        await eventually(tried_again)
        world.model_server.default("embed", "ok")
        assert (await world.result("waits.md", waiting)).status == "stored"


async def test_the_command_follows_its_jobs_and_reports_what_could_not_be_read(world):
    folder = world.folder / "pages"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.md").write_bytes(parts(10))
    (folder / "broken.pdf").write_bytes(b"garbage")

    def hand_in(*files, wait):
        return submit(world.settings(), files, groups=["board"], tenant=world.tenant, wait=wait)

    assert await asyncio.to_thread(hand_in, folder / "0.md", wait=False) == 0
    assert await world.jobs.depth() == 1
    await world.workers(2)
    await world.nothing_left()

    process = await command(world, "ingest", "--queue", "--tenant", world.tenant, "--group", "board", folder)
    _, told = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, told
    assert "broken.pdf: it is no PDF, or damaged" in told.decode()
    assert "3 stored (30 passages), 1 unchanged, 1 skipped" in told.decode()
    groups = {tuple(each.meta["groups"]) for each in await world.index.find(in_tenant(world.tenant))}
    assert groups == {("board",)}
    assert await asyncio.to_thread(hand_in, folder / "broken.pdf", wait=True) == 1
    await world.nothing_left()


def test_without_a_queue_nothing_is_handed_in(tmp_path):
    (tmp_path / "a.md").write_text("text")
    with pytest.raises(ConfigurationError, match="there is no queue: set HAYRECALL_NATS_URL"):
        submit(Settings(_env_file=None, data_dir=tmp_path), [tmp_path / "a.md"], groups=[], tenant="default")


async def command(world, *arguments):
    settings = world.settings()
    env = os.environ | {
        "HAYRECALL_NATS_URL": str(settings.nats_url),
        "HAYRECALL_QDRANT_URL": str(settings.qdrant_url),
        "HAYRECALL_DATA_DIR": str(settings.data_dir),
    }
    words = [sys.executable, "-m", "hayrecall", *map(str, arguments)]
    return await asyncio.create_subprocess_exec(*words, env=env, stderr=subprocess.PIPE)

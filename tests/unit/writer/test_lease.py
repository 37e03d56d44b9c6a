import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from contracts.errors import QueueUnavailableError
from writer.lease import LeaseLostError, held


async def test_heartbeats_hold_a_turn_for_longer_than_the_ack_wait():
    beats = []

    async def heartbeat():
        beats.append(1)

    async with held(heartbeat, 0.3) as lease:
        await asyncio.sleep(0.8)
        lease.check()
    assert len(beats) >= 5


async def test_handling_is_cancelled_before_another_writer_gets_the_turn_when_heartbeats_fail():
    async def heartbeat():
        raise QueueUnavailableError("NATS is away")

    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(LeaseLostError):
        async with held(heartbeat, 0.3):
            await asyncio.sleep(10)
    assert loop.time() - began < 0.6


async def test_a_timeout_of_the_handling_itself_is_no_lost_lease():
    async def heartbeat():
        pass

    with pytest.raises(TimeoutError):
        async with held(heartbeat, 5):
            raise TimeoutError("the model")


def test_a_process_that_was_frozen_learns_before_its_next_effect_that_the_turn_is_no_longer_its_own():
    program = textwrap.dedent("""
        import asyncio
        from writer.lease import LeaseLostError, held

        async def heartbeat():
            pass

        async def main():
            try:
                async with held(heartbeat, 0.6) as lease:
                    print("holding", flush=True)
                    while True:
                        lease.check()
                        await asyncio.sleep(0)
            except LeaseLostError:
                print("lost", flush=True)

        asyncio.run(main())
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "holding\n"
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "lost\n"
        assert process.wait(10) == 0

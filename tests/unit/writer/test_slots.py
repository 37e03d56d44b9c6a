import asyncio

from writer.slots import Slots


async def test_no_more_run_at_a_time_than_there_are_slots():
    slots, running, most = Slots(3), 0, 0

    async def work():
        nonlocal running, most
        async with slots.one():
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

    await asyncio.gather(*(work() for _ in range(10)))
    assert most == 3


async def test_who_holds_all_slots_runs_alone_and_everybody_gets_their_turn():
    slots, running, alone = Slots(3), 0, []

    async def one():
        nonlocal running
        async with slots.one():
            running += 1
            await asyncio.sleep(0.01)
            running -= 1

    async def everything():
        async with slots.all():
            alone.append(running)
            await asyncio.sleep(0.01)
            alone.append(running)

    async with asyncio.timeout(5):
        await asyncio.gather(*(one() for _ in range(5)), everything(), everything(), *(one() for _ in range(5)))
    assert alone == [0, 0, 0, 0]


async def test_slots_come_back_when_a_waiting_one_is_cancelled():
    slots = Slots(2)
    async with slots.one():
        waiting = asyncio.create_task(slots.all().__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(1), slots.all():
        pass

"""Do the same for many things, a bounded number at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

X = TypeVar("X")
T = TypeVar("T")


async def for_each(work: Callable[[X], Awaitable[T]], things: Iterable[X], *, at_a_time: int) -> list[T]:
    """
    Do the work for every thing; a failure ends the rest, and is raised as it is.

    :param work: What to do with one of them.
    :param things: What to do it for.
    :param at_a_time: Most that are worked on at the same time.
    :returns: What came of each, in order.
    """
    limit = asyncio.Semaphore(at_a_time)

    async def one(thing: X) -> T:
        async with limit:
            return await work(thing)

    try:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(one(thing)) for thing in things]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in started]

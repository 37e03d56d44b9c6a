"""How many turns one writer handles at a time, and how one that seems to end the process is handled alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager


class Slots:
    """
    A fair limit on turns in progress; whoever asks for all slots gets them all, in its turn.

    ### Usage example

    ```python
    slots = Slots(16)
    async with slots.one():
        ...  # fifteen others may run
    async with slots.all():
        ...  # nothing else runs
    ```
    """

    def __init__(self, count: int) -> None:
        """
        Make the slots.

        :param count: Turns at a time.
        """
        self._count = count
        self._free = asyncio.Semaphore(count)
        self._alone = asyncio.Lock()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold one slot."""
        async with self._free:
            yield

    @asynccontextmanager
    async def all(self) -> AsyncIterator[None]:
        """Hold every slot; two who want that come one after the other."""
        async with self._alone, AsyncExitStack() as held:
            for _ in range(self._count):
                await held.enter_async_context(self._free)
            yield

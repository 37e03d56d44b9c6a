"""What an operator does with dead letters on the command line."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table

from components.dead_letters import DeadLetter, DeadLetterQueue
from contracts.errors import ErasedError, PayloadError
from contracts.settings import Settings
from hayrecall.local.instance import connected
from hayrecall.local.queue_connection import queue_connection

T = TypeVar("T")

_PAGE = 500


class DeadLetterDesk:
    """Lists, shows, replays and discards the dead letters of one tenant, or of all."""

    def __init__(self, settings: Settings, *, tenant: str | None) -> None:
        """
        Remember where to work.

        :param settings: Settings as they were loaded.
        :param tenant: The tenant; None for all, and for what stands under no tenant's name.
        """
        self._settings = settings
        self._tenant = tenant

    def overview(self, *, as_json: bool) -> int:
        """
        Print all dead letters, the oldest first.

        :param as_json: One JSON list instead of a table.
        :returns: Exit code.
        :raises QueueUnavailableError: If NATS does not answer.
        """
        letters = self._run(self._all)
        if as_json:
            typer.echo(json.dumps([_plain(letter) for letter in letters], indent=2))
        elif letters:
            Console().print(_table(letters))
        else:
            typer.echo("There are no dead letters.")
        return 0

    def show(self, letter_id: int, *, text: bool, as_json: bool) -> int:
        """
        Print one dead letter.

        :param letter_id: As `list` shows it.
        :param text: Also what was said; it is somebody's.
        :param as_json: JSON instead of lines.
        :returns: Exit code: 1 if there is none.
        :raises QueueUnavailableError: If NATS does not answer.
        """

        async def read(queue: DeadLetterQueue) -> tuple[DeadLetter | None, str | None]:
            letter = await queue.get(letter_id, tenant_id=self._tenant)
            if letter is None or not text:
                return letter, None
            try:
                return letter, await queue.content(letter_id, tenant_id=self._tenant)
            except PayloadError as error:
                return letter, str(error)

        letter, content = self._run(read)
        if letter is None:
            return self._missing([letter_id])
        shown = _plain(letter) | ({"content": content} if text else {})
        if as_json:
            typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        else:
            for name, value in shown.items():
                typer.echo(f"{name + ':':<12} {value}")
        return 0

    def replay(self, letter_ids: Sequence[int]) -> int:
        """
        Queue dead letters again.

        :param letter_ids: As `list` shows them; none = all.
        :returns: Exit code: 1 if one was not replayed.
        :raises QueueUnavailableError: If NATS does not answer.
        """

        async def replay(queue: DeadLetterQueue, letter_id: int) -> bool:
            try:
                return await queue.replay(letter_id, tenant_id=self._tenant)
            except ErasedError as error:
                typer.echo(error)
                return True

        return self._each(letter_ids, replay, "replayed")

    def discard(self, letter_ids: Sequence[int]) -> int:
        """
        Drop dead letters for good.

        :param letter_ids: As `list` shows them; none = all.
        :returns: Exit code: 1 if one is not there.
        :raises QueueUnavailableError: If NATS does not answer.
        """

        async def discard(queue: DeadLetterQueue, letter_id: int) -> bool:
            return await queue.discard(letter_id, tenant_id=self._tenant)

        return self._each(letter_ids, discard, "discarded")

    def _each(
        self, letter_ids: Sequence[int], act: Callable[[DeadLetterQueue, int], Awaitable[bool]], done: str
    ) -> int:
        async def act_on_each(queue: DeadLetterQueue) -> tuple[int, Sequence[int]]:
            ids = letter_ids or [letter.id for letter in await self._all(queue)]
            missing = [letter_id for letter_id in ids if not await act(queue, letter_id)]
            return len(ids) - len(missing), missing

        count, missing = self._run(act_on_each)
        typer.echo(f"{count} {done}")
        return self._missing(missing) if missing else 0

    async def _all(self, queue: DeadLetterQueue) -> list[DeadLetter]:
        letters: list[DeadLetter] = []
        while page := await queue.list(tenant_id=self._tenant, after=letters[-1].id if letters else 0, limit=_PAGE):
            letters += page
        return letters

    def _missing(self, letter_ids: Sequence[int]) -> int:
        for letter_id in letter_ids:
            of = "" if self._tenant is None else f" of tenant {self._tenant}"
            typer.echo(f"There is no dead letter {letter_id}{of}.")
        return 1

    def _run(self, work: Callable[[DeadLetterQueue], Coroutine[Any, Any, T]]) -> T:
        async def run(settings: Settings) -> T:
            async with queue_connection(settings) as connection:
                return await work(DeadLetterQueue(connection))

        with connected(self._settings, ["nats"]) as settings:
            return asyncio.run(run(settings))


def _plain(letter: DeadLetter) -> dict[str, Any]:
    return asdict(letter) | {"died_at": letter.died_at.isoformat(timespec="seconds")}


def _table(letters: Sequence[DeadLetter]) -> Table:
    table = Table("id", "died at", "reason", "attempts", "run", "error", box=None)
    for letter in letters:
        at = letter.died_at.isoformat(sep=" ", timespec="seconds")
        table.add_row(str(letter.id), at, letter.reason, str(letter.attempts), letter.run_id, letter.error)
    return table

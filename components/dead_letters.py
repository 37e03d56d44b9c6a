"""Turns that the writer gave up: what they are, and what an operator can do with them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from components.body_store import BodyStore
from components.jetstream import JetStreamConnection
from components.stored_message import StoredMessage
from components.user_states import UserStates
from contracts.errors import ErasedError, PayloadError
from contracts.payloads import ConversationTurn, read_turn
from contracts.queue import (
    BODY_DIGEST_HEADER,
    BODY_HEADER,
    BODY_SIZE_HEADER,
    DEAD_AT_HEADER,
    DEAD_ATTEMPTS_HEADER,
    DEAD_ERROR_HEADER,
    DEAD_REASON_HEADER,
    DEAD_RUN_HEADER,
    DEAD_STREAM,
    DEAD_SUBJECT_HEADER,
    KIND_HEADER,
    REPLAY_HEADER,
    TURNS_STREAM,
    VERSION_HEADER,
    token,
)

_REPLAYED_HEADERS = (VERSION_HEADER, KIND_HEADER, BODY_HEADER, BODY_SIZE_HEADER, BODY_DIGEST_HEADER, "traceparent")
_DIGITS = 19  # of numbers that every reader of JSON takes


@dataclass(frozen=True)
class DeadLetter:
    """A turn that was given up, without its text; `owner` is the tokens of tenant and user."""

    id: int
    run_id: str
    owner: str
    reason: str
    error: str
    attempts: int
    died_at: datetime
    size_bytes: int

    @classmethod
    def of(cls, message: StoredMessage) -> Self:
        """
        Read a message of the dead-letter stream.

        :param message: As stored; whatever is missing in it, or makes no sense, is said to be unknown: an operator must
            be able to see and discard what anybody may have put there.
        """
        headers = message.headers
        return cls(
            id=message.sequence,
            run_id=headers.get(DEAD_RUN_HEADER, "unknown"),
            owner=message.subject.partition(".")[2],
            reason=headers.get(DEAD_REASON_HEADER, "unknown"),
            error=headers.get(DEAD_ERROR_HEADER, ""),
            attempts=_number(headers.get(DEAD_ATTEMPTS_HEADER), 0),
            died_at=_time(headers.get(DEAD_AT_HEADER), message.stored_at),
            size_bytes=_number(headers.get(BODY_SIZE_HEADER), len(message.body)),
        )

    @property
    def body_name(self) -> str:
        """The only name that a large body of this turn can have; `body_name` of contracts/queue.py makes it."""
        return f"{self.owner}.{self.run_id}"


class DeadLetterQueue:
    """Lists, shows, replays and discards dead letters; each call can be confined to one tenant."""

    def __init__(self, connection: JetStreamConnection) -> None:
        """
        Remember the connection.

        :param connection: An opened connection.
        """
        self._connection = connection
        self._bodies = BodyStore(connection)
        self._states = UserStates(connection)

    async def list(self, *, tenant_id: str | None = None, after: int = 0, limit: int = 100) -> list[DeadLetter]:
        """
        List dead letters, the oldest first.

        :param tenant_id: Only those of this tenant; None = of all.
        :param after: Only those with a larger id: the last id of the page before.
        :param limit: Most to give.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        found = await self._connection.read_subject(
            DEAD_STREAM, f"dead.{_tenant(tenant_id)}.*", limit=limit, first_sequence=after + 1
        )
        return [DeadLetter.of(message) for message in found]

    async def count(self) -> int:
        """
        Count the dead letters of all tenants.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        return int((await self._connection.stream_info(DEAD_STREAM))["state"]["messages"])

    async def get(self, letter_id: int, *, tenant_id: str | None = None) -> DeadLetter | None:
        """
        Give one dead letter.

        :returns: The dead letter; None if there is none with this id, or it is another tenant's.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        message = await self._message(letter_id, tenant_id)
        return None if message is None else DeadLetter.of(message)

    async def content(self, letter_id: int, *, tenant_id: str | None = None) -> str | None:
        """
        Give the text of a dead letter's message, JSON if it is a turn: it holds what a person said.

        :returns: The text; None if there is no such dead letter.
        :raises PayloadError: If its large body is gone, or the body that it names is not its own.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        message = await self._message(letter_id, tenant_id)
        if message is None:
            return None
        return (await self._read(message)).decode(errors="replace")

    async def replay(self, letter_id: int, *, tenant_id: str | None = None) -> bool:
        """
        Queue a dead letter's turn once more, behind what is queued for its user.

        It travels under a new message id, for NATS would drop the old one as a duplicate, and the same run id, so that
        it is one effect even if it was applied after all.

        :returns: False if there is no such dead letter.
        :raises ErasedError: If its user erased everything meanwhile; the dead letter is discarded instead.
        :raises QueueUnavailableError: If NATS did not confirm; nothing is lost.
        """
        message = await self._message(letter_id, tenant_id)
        if message is None:
            return False
        if await self._is_erased(message):
            await self._remove(message)
            msg = f"dead letter {letter_id} was not replayed: its user erased everything after it was said"
            raise ErasedError(msg)
        letter = DeadLetter.of(message)
        headers = {name: message.headers[name] for name in _REPLAYED_HEADERS if name in message.headers}
        headers |= {
            "Nats-Msg-Id": f"{letter.run_id}~r{letter.id}",
            "Nats-Expected-Stream": TURNS_STREAM,
            REPLAY_HEADER: str(letter.id),
        }
        subject = message.headers.get(DEAD_SUBJECT_HEADER, f"turns.{letter.owner}")
        await self._connection.publish(subject, message.body, headers)
        await self._connection.delete_message(DEAD_STREAM, letter.id)
        return True

    async def discard(self, letter_id: int, *, tenant_id: str | None = None) -> bool:
        """
        Drop a dead letter and its large body for good; a body that it names, but that is not its own, stays.

        :returns: False if there is no such dead letter.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        message = await self._message(letter_id, tenant_id)
        if message is None:
            return False
        await self._remove(message)
        return True

    async def _message(self, letter_id: int, tenant_id: str | None) -> StoredMessage | None:
        if letter_id < 1:
            return None
        message = await self._connection.read_message(DEAD_STREAM, sequence=letter_id)
        if message is None or (tenant_id is not None and message.subject.split(".")[1] != token(tenant_id)):
            return None
        return message

    async def _is_erased(self, message: StoredMessage) -> bool:
        try:
            turn = read_turn(await self._read(message))
        except PayloadError:  # replaying what nobody can read is pointless, but the operator's own wish
            return False
        if not isinstance(turn, ConversationTurn):
            return False
        return (await self._states.read(turn.tenant_id, turn.user_id)).forgets(turn.said_at)

    async def _read(self, message: StoredMessage) -> bytes:
        if message.headers.get(BODY_HEADER, own := DeadLetter.of(message).body_name) != own:
            msg = "the dead letter stands for a body that is not its own"
            raise PayloadError(msg)
        return await self._bodies.read(message.headers, message.body)

    async def _remove(self, message: StoredMessage) -> None:
        if message.headers.get(BODY_HEADER) == (own := DeadLetter.of(message).body_name):
            await self._bodies.delete(own)
        await self._connection.delete_message(DEAD_STREAM, message.sequence, scrub=True)


def _tenant(tenant_id: str | None) -> str:
    return "*" if tenant_id is None else token(tenant_id)


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < _DIGITS else otherwise


def _time(text: str | None, otherwise: datetime) -> datetime:
    try:
        return datetime.fromisoformat(text or "")
    except ValueError:
        return otherwise

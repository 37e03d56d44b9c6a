"""A key-value bucket of NATS."""

from components.jetstream import JetStreamConnection
from components.jetstream_refusal import RefusedError
from components.stored_message import StoredMessage

_WRONG_REVISION = (10071, 10164)


class Bucket:
    """
    Keys and values in NATS, in the layout that every NATS client knows as a key-value bucket.

    Deleted keys leave no marker behind, and reading a key asks the leader: an erase must not meet an older value.
    """

    def __init__(self, connection: JetStreamConnection, name: str) -> None:
        """
        Remember the bucket.

        :param connection: Creates the bucket when it connects.
        :param name: One of the buckets of contracts/queue.py.
        """
        self._connection = connection
        self._stream = f"KV_{name}"
        self._prefix = f"$KV.{name}."

    async def get(self, key: str, *, timeout_seconds: float = 5) -> StoredMessage | None:
        """
        Read a key.

        :param key: The key.
        :param timeout_seconds: Longest wait.
        :returns: The value as `body`, its revision as `sequence`; None if the key is not there.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        found = await self._connection.read_message(
            self._stream, last_of=self._prefix + key, timeout_seconds=timeout_seconds
        )
        return None if found is None or "KV-Operation" in found.headers else found

    async def put(self, key: str, value: bytes, *, revision: int | None = None) -> bool:
        """
        Write a key.

        :param key: The key.
        :param value: The value.
        :param revision: Write only if this is still the last revision; 0 = only if the key is not there.
        :returns: Whether it was written.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        headers = None if revision is None else {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        try:
            await self._connection.publish(self._prefix + key, value, headers)
        except RefusedError as refusal:
            if refusal.code in _WRONG_REVISION:
                return False
            raise
        return True

    async def create(self, key: str, value: bytes) -> bool:
        """
        Write a key that is not there yet.

        :param key: The key.
        :param value: The value.
        :returns: False if the key is there: the first one wins.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        return await self.put(key, value, revision=0)

    async def delete(self, pattern: str) -> int:
        """
        Delete keys.

        :param pattern: A key, or a key with wildcards.
        :returns: How many went.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        return await self._connection.purge(self._stream, self._prefix + pattern)

    async def list(self, pattern: str = ">", *, limit: int = 100_000) -> dict[str, bytes]:
        """
        Read several keys.

        :param pattern: Keys with wildcards.
        :param limit: Most keys to read.
        :returns: Values by key, the oldest first.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        found = await self._connection.read_subject(self._stream, self._prefix + pattern, limit=limit)
        return {
            message.subject.removeprefix(self._prefix): message.body
            for message in found
            if "KV-Operation" not in message.headers
        }

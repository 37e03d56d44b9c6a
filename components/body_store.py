"""Claim check: bodies that are too large for a message."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from components.jetstream import JetStreamConnection
from contracts.errors import PayloadError
from contracts.queue import (
    BODIES_BUCKET,
    BODY_DIGEST_HEADER,
    BODY_HEADER,
    BODY_SIZE_HEADER,
    user_key,
)

_CHUNK_BYTES = 128 * 1024
_MOST_CHUNKS = 4096
_NAME = re.compile(r"[a-z2-7]{26}\.[a-z2-7]{26}\.[0-9a-f-]{36}")  # as `body_name` makes it; it becomes part of subjects


class BodyStore:
    """
    Large bodies, in the layout that every NATS client knows as an object store.

    Chunks lie under a subject made of the body's name, not under a random one: an erase finds them even if the process
    that stored them died half-way, and a second attempt takes the place of the first.
    """

    def __init__(self, connection: JetStreamConnection, bucket: str = BODIES_BUCKET) -> None:
        """
        Remember the connection.

        :param connection: Creates the object store when it connects.
        :param bucket: Name of the object store.
        """
        self._connection = connection
        self._bucket = bucket
        self._stream = f"OBJ_{bucket}"

    async def put(self, name: str, body: bytes) -> dict[str, str]:
        """
        Store a body.

        :param name: From `body_name` of contracts/queue.py.
        :param body: Any bytes.
        :returns: Headers for the message that stands for it: name, size, SHA-256.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        await self._connection.purge(self._stream, self._chunks(name))
        for start in range(0, len(body), _CHUNK_BYTES):
            await self._connection.publish(self._chunks(name), body[start : start + _CHUNK_BYTES])
        digest = hashlib.sha256(body)
        meta = {
            "name": name,
            "options": {"max_chunk_size": _CHUNK_BYTES},
            "bucket": self._bucket,
            "nuid": name,
            "size": len(body),
            "chunks": -(-len(body) // _CHUNK_BYTES),
            "mtime": datetime.now(UTC).isoformat(),
            "digest": f"SHA-256={base64.urlsafe_b64encode(digest.digest()).decode()}",
            "deleted": False,
        }
        await self._connection.publish(self._meta(name), json.dumps(meta).encode(), {"Nats-Rollup": "sub"})
        return {BODY_HEADER: name, BODY_SIZE_HEADER: str(len(body)), BODY_DIGEST_HEADER: digest.hexdigest()}

    async def read(self, headers: Mapping[str, str], body: bytes, *, timeout_seconds: float = 30) -> bytes:
        """
        Give a message's body: its own, or the one that it stands for.

        :param headers: The message's.
        :param body: The message's own.
        :param timeout_seconds: Longest wait.
        :returns: The body.
        :raises PayloadError: If the store does not hold it, or holds something else, or the name is none of ours.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        name = headers.get(BODY_HEADER)
        if name is None:
            return body
        if not _NAME.fullmatch(name):
            msg = "the message stands for a body whose name is none of ours"
            raise PayloadError(msg)
        chunks = await self._connection.read_subject(
            self._stream, self._chunks(name), limit=_MOST_CHUNKS, timeout_seconds=timeout_seconds
        )
        whole = b"".join(chunk.body for chunk in chunks)
        if hashlib.sha256(whole).hexdigest() != headers.get(BODY_DIGEST_HEADER):
            msg = f"missing or damaged body: {len(whole)} of {headers.get(BODY_SIZE_HEADER)} bytes are there"
            raise PayloadError(msg)
        return whole

    async def delete(self, name: str) -> None:
        """
        Delete a body, without a trace.

        :param name: As stored; deleting what is not there is no error. A name that is none of ours, which a foreign
            message may hold, deletes nothing: as a wildcard it would be everybody's bodies.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        if not _NAME.fullmatch(name):
            return
        await self._connection.purge(self._stream, self._chunks(name))
        await self._connection.purge(self._stream, self._meta(name))

    async def delete_all(self, tenant_id: str, user_id: str) -> None:
        """
        Delete every body of a user, also half-stored ones, and overwrite them on disk.

        :raises QueueUnavailableError: If NATS did not confirm.
        """
        prefix = user_key(tenant_id, user_id)
        await self._connection.scrub(self._stream, self._chunks(f"{prefix}.*"))
        # The key and its dot are 54 bytes, a multiple of 3: in base64 too, names of the user share their beginning.
        start = self._meta(f"{prefix}.")
        for subject in await self._connection.subjects(self._stream, f"$O.{self._bucket}.M.>"):
            if subject.startswith(start):
                await self._connection.purge(self._stream, subject)

    def _chunks(self, name: str) -> str:
        return f"$O.{self._bucket}.C.{name}"

    def _meta(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

"""The connection to NATS JetStream, and the calls that its client library does not wrap; nothing else imports nats."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import nats
import nats.errors
import nats.js.errors
from haystack import logging
from nats.aio.client import Client

from components.jetstream_refusal import RefusedError, check
from components.stored_message import StoredMessage
from contracts.errors import ConfigurationError, QueueUnavailableError
from contracts.queue import TURNS_MAX_BYTES, TURNS_STREAM, stream_configs

logger = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_PROBE_SECONDS = 1.0
_PROBE_PAUSE_SECONDS = 0.2
_BATCH_MESSAGES = 1000
_EXISTS_DIFFERENTLY = 10058  # stream name already in use with a different configuration
_GONE = (10037, 10043, 10057)  # no message found, sequence not found, message not found


class JetStreamConnection:
    """
    One connection to NATS that never gives up, never buffers, and knows when asking is no use.

    A call that NATS leaves unanswered trips a breaker: until NATS answers a probe, calls fail at once instead of making
    every turn wait. The streams and buckets of the queue are created, or brought up to date, at each (re)connection.
    Every outage is raised as `QueueUnavailableError`.
    """

    def __init__(
        self,
        url: str,
        *,
        replicas: int = 1,
        turns_max_bytes: int | None = None,
        further_streams: Sequence[dict[str, Any]] = (),
    ) -> None:
        """
        Remember where NATS is; nothing is opened here.

        :param url: Address; several, separated by commas, for a cluster.
        :param replicas: Copies of each stream; 3 in a three-node cluster.
        :param turns_max_bytes: Most that the stream of turns may hold; None = the default for a new stream, and for one
            that is there, what it has.
        :param further_streams: Streams and buckets to create beside those of the turns.
        """
        self.url = url
        self.replicas = replicas
        self.turns_max_bytes = turns_max_bytes
        self.further_streams = further_streams
        self._client = Client()
        self._available = asyncio.Event()
        self._suspect = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._complaints: set[str] = set()

    async def open(self, *, patience_seconds: float = 2.0) -> bool:
        """
        Start connecting, and keep at it in the background for as long as it takes.

        :param patience_seconds: How long to wait for the first connection.
        :returns: Whether NATS is available by then.
        :raises ConfigurationError: If the address is none.
        """
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep(), name="jetstream-keeper")
        waiting = asyncio.create_task(self.wait_available())
        await asyncio.wait({self._keeper, waiting}, timeout=patience_seconds, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._keeper.done():
            msg = f"NATS at {_without_secret(self.url)} cannot be used: {self._keeper.exception()!r}"
            raise ConfigurationError(msg)
        return self.is_available

    async def close(self) -> None:
        """Stop connecting and close."""
        if self._keeper is None:
            return
        while not self._keeper.done():  # the client, while it looks for a server, may swallow a cancellation
            self._keeper.cancel()
            await asyncio.wait({self._keeper}, timeout=0.1)
        self._keeper = None
        self._available.clear()
        if not (self._client.is_connected or self._client.is_reconnecting):
            return
        # A frozen server never answers the last flush.
        with contextlib.suppress(TimeoutError, nats.errors.Error):
            async with asyncio.timeout(1):
                await self._client.close()

    @property
    def is_available(self) -> bool:
        """Whether NATS is connected and answered last time."""
        return bool(self._client.is_connected) and self._available.is_set()

    async def wait_available(self) -> None:
        """Wait until NATS answers."""
        await self._available.wait()

    @property
    def client(self) -> Client:
        """The client library's own connection, for subscriptions: they outlive reconnects."""
        return self._client

    # --- streams -----------------------------------------------------------------------------------------------------

    async def publish(
        self,
        subject: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float = _CALL_SECONDS,
    ) -> dict[str, Any]:
        """
        Publish to a stream and wait until it is stored.

        :param headers: Values must hold no line break; NATS would make it a space.
        :param timeout_seconds: Longest wait; after it, the message may still arrive: publish again with the same id.
        :returns: NATS's acknowledgement: `stream`, `seq`, and `duplicate` if the message id was known.
        :raises QueueUnavailableError: If it was not confirmed.
        """
        async with self._asking("store a message"):
            answer = await self._client.request(
                subject, body, timeout=timeout_seconds, headers=dict(headers) if headers else None
            )
            return check(json.loads(answer.data))

    async def read_subject(
        self,
        stream: str,
        subject: str,
        *,
        limit: int,
        first_sequence: int = 1,
        timeout_seconds: float = _CALL_SECONDS,
    ) -> list[StoredMessage]:
        """
        Read what a stream keeps under a subject, without a consumer and in one round trip a thousand.

        :param subject: May hold wildcards.
        :param limit: Most messages to read.
        :param first_sequence: Where to begin.
        :returns: Messages in the order of the stream.
        :raises QueueUnavailableError: If NATS did not answer.
        """
        found: list[StoredMessage] = []
        async with self._asking("read messages"), asyncio.timeout(timeout_seconds):
            inbox = self._client.new_inbox()
            replies = await self._client.subscribe(inbox)
            try:
                more = True
                while more and len(found) < limit:
                    batch = min(limit - len(found), _BATCH_MESSAGES)
                    request = {"seq": first_sequence, "next_by_subj": subject, "batch": batch}
                    await self._client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), inbox)
                    reply = await replies.next_msg(timeout_seconds)
                    while "Status" not in (reply.headers or {}):
                        found.append(StoredMessage.from_direct_get(reply.headers, reply.data))
                        reply = await replies.next_msg(timeout_seconds)
                    more = reply.headers.get("Nats-Num-Pending", "0") != "0"
                    first_sequence = found[-1].sequence + 1 if found else first_sequence
            finally:
                with contextlib.suppress(nats.errors.Error):
                    await replies.unsubscribe()
        return found

    async def read_message(
        self, stream: str, *, sequence: int = 0, last_of: str = "", timeout_seconds: float = _CALL_SECONDS
    ) -> StoredMessage | None:
        """
        Read one message from the stream's leader: never older than the last one confirmed.

        :param sequence: Which one; or
        :param last_of: the last one under this subject.
        :returns: The message; None if the stream does not keep it.
        """
        request = {"last_by_subj": last_of} if last_of else {"seq": sequence}
        try:
            answer = await self.call(f"STREAM.MSG.GET.{stream}", request, timeout_seconds=timeout_seconds)
        except RefusedError as refusal:
            if refusal.code in _GONE:
                return None
            raise
        return StoredMessage.from_api(answer["message"])

    async def delete_message(self, stream: str, sequence: int, *, scrub: bool = False) -> bool:
        """
        Delete one message.

        :param scrub: Overwrite its bytes on disk as well: rewrites a file under the stream's lock, so only for erasing.
        :returns: Whether it was there.
        """
        try:
            await self.call(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence, "no_erase": not scrub})
        except RefusedError as refusal:
            if refusal.code in _GONE:
                return False
            raise
        return True

    async def purge(self, stream: str, subject: str) -> int:
        """
        Drop everything that a stream keeps under a subject.

        :param subject: May hold wildcards; never empty, which would drop everything.
        :returns: How many messages went.
        """
        return int((await self.call(f"STREAM.PURGE.{stream}", {"filter": subject}))["purged"])

    async def scrub(self, stream: str, subject: str) -> None:
        """
        Drop everything that a stream keeps under a subject by now, and overwrite its bytes on disk.

        :param subject: May hold wildcards.
        """
        last = (await self.stream_info(stream))["state"]["last_seq"]
        first = 1
        while first <= last:  # what arrives meanwhile is not chased
            found = await self.read_subject(stream, subject, limit=_BATCH_MESSAGES, first_sequence=first)
            for message in found:
                if message.sequence <= last:
                    await self.delete_message(stream, message.sequence, scrub=True)
            first = found[-1].sequence + 1 if found else last + 1

    async def stream_info(self, stream: str) -> dict[str, Any]:
        """Give NATS's own account of a stream: `config`, `state` (`messages`, `bytes`, `first_ts`, …), `cluster`."""
        return await self.call(f"STREAM.INFO.{stream}", {})

    async def subjects(self, stream: str, pattern: str) -> list[str]:
        """List the subjects of a stream that hold messages."""
        found: list[str] = []
        while True:
            request = {"subjects_filter": pattern, "offset": len(found)}
            page = (await self.call(f"STREAM.INFO.{stream}", request))["state"].get("subjects") or {}
            found += page
            if len(page) < 100_000:  # the size of NATS's pages  # noqa: PLR2004
                return found

    # --- the API of NATS ---------------------------------------------------------------------------------------------

    async def call(
        self, operation: str, request: Mapping[str, Any], *, timeout_seconds: float = _CALL_SECONDS
    ) -> dict[str, Any]:
        """
        Call `$JS.API.<operation>`.

        :returns: The answer.
        :raises QueueUnavailableError: If NATS does not answer, or refuses.
        """
        async with self._asking(operation):
            return await self._request(operation, request, timeout_seconds)

    async def _request(self, operation: str, request: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
        answer = await self._client.request(
            f"$JS.API.{operation}", json.dumps(request).encode(), timeout=timeout_seconds
        )
        return check(json.loads(answer.data))

    @contextlib.asynccontextmanager
    async def _asking(self, action: str) -> AsyncIterator[None]:
        if not self.is_available:
            msg = f"NATS at {_without_secret(self.url)} is not available"
            raise QueueUnavailableError(msg)
        try:
            yield
        except TimeoutError as error:
            self._doubt()
            msg = f"NATS did not answer in time ({action})"
            raise QueueUnavailableError(msg) from error
        except (nats.errors.Error, OSError) as error:
            msg = f"NATS failed ({action}): {error!r}"
            raise QueueUnavailableError(msg) from error

    # --- staying connected -------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        await self._client.connect(
            servers=[address.strip() for address in self.url.split(",")],
            name="hayrecall",
            connect_timeout=2,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.2,
            ping_interval=20,
            pending_size=0,  # a buffered message would be sent after its caller has put it into the outbox
            disconnected_cb=self._on_disconnect,
            error_cb=self._complain,
        )
        self._suspect.set()
        while True:
            await self._suspect.wait()
            if not self._client.is_connected:  # the client is at it
                await asyncio.sleep(_PROBE_PAUSE_SECONDS)
                continue
            self._suspect.clear()
            try:
                await self._probe()
            except (nats.errors.Error, OSError, TimeoutError, RefusedError) as error:
                self._suspect.set()
                await self._complain(error)
                await asyncio.sleep(_PROBE_PAUSE_SECONDS)
            if not self._suspect.is_set():  # not by a disconnect during the probe either
                self._complaints.clear()
                self._available.set()

    async def _probe(self) -> None:
        wanted = stream_configs(replicas=self.replicas, turns_max_bytes=self.turns_max_bytes or TURNS_MAX_BYTES)
        for config in [*wanted, *self.further_streams]:
            try:
                await self._request(f"STREAM.CREATE.{config['name']}", config, _CALL_SECONDS)
            except RefusedError as refusal:
                if refusal.code != _EXISTS_DIFFERENTLY:
                    raise
                await self._update(config)
        await self._request(f"STREAM.INFO.{TURNS_STREAM}", {}, _PROBE_SECONDS)

    async def _update(self, config: dict[str, Any]) -> None:
        if config["name"] == TURNS_STREAM and self.turns_max_bytes is None:
            present = (await self._request(f"STREAM.INFO.{TURNS_STREAM}", {}, _CALL_SECONDS))["config"]
            config = config | {"max_bytes": present["max_bytes"]}
        await self._request(f"STREAM.UPDATE.{config['name']}", config, _CALL_SECONDS)

    def _doubt(self) -> None:
        self._available.clear()
        self._suspect.set()

    async def _on_disconnect(self) -> None:
        self._doubt()

    async def _complain(self, error: Exception) -> None:
        complaint = repr(error)
        if complaint not in self._complaints:  # tried again five times a second: said once until it is usable again
            self._complaints.add(complaint)
            url = _without_secret(self.url)
            logger.warning("NATS at {url} is not usable, trying on: {error}", url=url, error=complaint)


def _without_secret(url: str) -> str:
    return ", ".join(address.rpartition("@")[2] for address in url.split(","))

"""What users decided about their memory: erased up to when, learning on or off."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from haystack import logging
from pydantic import ValidationError

from components.bucket import Bucket
from components.jetstream import JetStreamConnection
from components.queue_metrics import UNKNOWN_USER_STATES
from contracts.errors import PayloadError, QueueUnavailableError
from contracts.payloads import UserState
from contracts.queue import USERS_BUCKET, user_key

logger = logging.getLogger(__name__)

_FRESH_SECONDS = 1.0
_MOST_CACHED = 50_000
_ATTEMPTS = 20


@dataclass(frozen=True)
class _Cached:
    state: UserState
    read_at: float


class UserStates:
    """
    The users' states in NATS, cached for a second.

    While NATS is away, the last known state counts, and for a user never met, the default one.
    """

    def __init__(self, connection: JetStreamConnection) -> None:
        """
        Remember the connection.

        :param connection: Creates the bucket when it connects.
        """
        self._bucket = Bucket(connection, USERS_BUCKET)
        self._cache: OrderedDict[str, _Cached] = OrderedDict()

    async def get(self, tenant_id: str, user_id: str, *, timeout_seconds: float = 0.25) -> UserState:
        """
        Give a user's state; never fails.

        :param timeout_seconds: Longest wait; after it, the last known state.
        """
        key = user_key(tenant_id, user_id)
        cached = self._cache.get(key)
        if cached is not None and time.monotonic() - cached.read_at < _FRESH_SECONDS:
            return cached.state
        try:
            return (await self._read(key, timeout_seconds))[0]
        except QueueUnavailableError:
            UNKNOWN_USER_STATES.inc()
            return cached.state if cached is not None else UserState()
        except PayloadError as error:  # guessing could store what a user wants forgotten
            logger.warning("learning is off for a user whose state cannot be read: {reason}", reason=str(error))
            return UserState(learning=False)

    async def read(self, tenant_id: str, user_id: str) -> UserState:
        """
        Give a user's state as it is now.

        :raises QueueUnavailableError: If NATS did not answer.
        """
        return (await self._read(user_key(tenant_id, user_id), 5.0))[0]

    def is_known(self, tenant_id: str, user_id: str) -> bool:
        """Tell whether the user's state was read lately enough to store a turn without asking again."""
        cached = self._cache.get(user_key(tenant_id, user_id))
        return cached is not None and time.monotonic() - cached.read_at < 60 * _FRESH_SECONDS

    async def set_learning(self, tenant_id: str, user_id: str, *, learning: bool) -> UserState:
        """
        Switch learning on or off.

        :returns: The new state.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        return await self._change(tenant_id, user_id, learning=learning)

    async def set_erased(self, tenant_id: str, user_id: str, erased_at: datetime) -> UserState:
        """
        Raise the erase epoch: turns said until then are never stored again.

        :param erased_at: With a time zone; an earlier time than the one that stands changes nothing.
        :returns: The new state.
        :raises QueueUnavailableError: If NATS did not confirm.
        """
        return await self._change(tenant_id, user_id, erased_at=erased_at)

    async def _change(
        self, tenant_id: str, user_id: str, *, learning: bool | None = None, erased_at: datetime | None = None
    ) -> UserState:
        key = user_key(tenant_id, user_id)
        for _ in range(_ATTEMPTS):
            state, revision = await self._read(key, 5.0)
            changes: dict[str, object] = {}
            if learning is not None:
                changes["learning"] = learning
            if erased_at is not None:
                changes["erased_at"] = max(erased_at, state.erased_at or erased_at)
            changed = state.model_copy(update=changes)
            if await self._bucket.put(key, changed.model_dump_json().encode(), revision=revision):
                self._remember(key, changed)
                return changed
        msg = f"the state of a user was changed by others {_ATTEMPTS} times in a row"
        raise QueueUnavailableError(msg)

    async def _read(self, key: str, timeout_seconds: float) -> tuple[UserState, int]:
        found = await self._bucket.get(key, timeout_seconds=timeout_seconds)
        try:
            state = UserState() if found is None else UserState.model_validate_json(found.body)
        except ValidationError as error:
            msg = f"the value of {key} in {USERS_BUCKET} is no user state of this version"
            raise PayloadError(msg) from error
        self._remember(key, state)
        return state, 0 if found is None else found.sequence

    def _remember(self, key: str, state: UserState) -> None:
        self._cache[key] = _Cached(state, time.monotonic())
        self._cache.move_to_end(key)
        while len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)

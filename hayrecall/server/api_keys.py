"""The file of API keys: who may call, for which tenant, with what rights. Only hashes are kept."""

import fcntl
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from haystack import logging
from pydantic import TypeAdapter, ValidationError

from contracts.errors import ConfigurationError

logger = logging.getLogger(__name__)

Role = Literal["user", "admin", "expert"]
_PREFIX = "hayrecall"
_ID_BYTES = 6
_SECRET_BYTES = 32


@dataclass(frozen=True)
class ApiKey:
    """
    One key, as the file holds it.

    `trusted` keys belong to a client that tells truthfully who its user is (headers, `user` field); `role` is what the
    key itself may do: `admin` for organization memories and documents, `expert` for answering questions.
    """

    id: str
    name: str
    tenant: str
    role: Role
    trusted: bool
    created_at: str
    salt: str
    digest: str
    revoked_at: str | None = None

    def opened_by(self, secret: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.digest, _digest(secret, self.salt)) and self.revoked_at is None


_KEYS: TypeAdapter[list[ApiKey]] = TypeAdapter(list[ApiKey])
# Compared with when no key has the id, so that an unknown id takes as long as a wrong secret.
_NOBODY = ApiKey("", "", "", "user", False, "", "00" * 16, "0" * 64)


class ApiKeys:
    """Finds the key that a request shows; reads the file again when it has changed."""

    def __init__(self, path: Path) -> None:
        """
        Read nothing yet.

        :param path: JSON file; one that is not there holds no keys.
        """
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}

    def find(self, shown: str) -> ApiKey | None:
        """
        Find the key that a client shows.

        :param shown: The key in clear.
        :returns: The key; None if it is unknown, wrong or revoked.
        """
        self._refresh()
        _, _, rest = shown.partition("-")
        key_id, _, secret = rest.partition("-")
        key = self._keys.get(key_id, _NOBODY)
        return key if key.opened_by(secret) and key is not _NOBODY else None

    def _refresh(self) -> None:
        """Read the file if it is another one than last time; keep the last good content when it is damaged."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._keys, self._seen = {}, None
            return
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._keys = {key.id: key for key in read_keys(self.path)}
        except ConfigurationError as error:
            logger.warning("API keys stay as they were: {reason}", reason=str(error))


def read_keys(path: Path) -> list[ApiKey]:
    """
    Read all keys of a file, revoked ones too.

    :raises ConfigurationError: If the file is no key file.
    """
    if not path.exists():
        return []
    try:
        return _KEYS.validate_python(json.loads(path.read_bytes())["keys"])
    except (ValueError, ValidationError, KeyError, TypeError, OSError):
        msg = f"{path} is no file of API keys; restore it, or remove it and make new keys with `hayrecall keys add`"
        raise ConfigurationError(msg) from None


def add_key(path: Path, *, tenant: str = "default", role: Role = "user", trusted: bool = False, name: str = "") -> str:
    """
    Make a key and keep its hash.

    :param path: File of keys; made, with its folder, if it is not there.
    :param tenant: Tenant that everything done with the key belongs to.
    :param role: What the key may do.
    :param trusted: Whether its holder is believed when it says who the user is.
    :param name: For people who read the list.
    :returns: The key in clear; it can never be read again.
    """
    key_id, secret, salt = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES), secrets.token_hex(16)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    key = ApiKey(key_id, name, tenant, role, trusted, now, salt, _digest(secret, salt))
    with _locked(path):
        _write(path, [*read_keys(path), key])
    return f"{_PREFIX}-{key_id}-{secret}"


def revoke_key(path: Path, key_id: str) -> bool:
    """
    Make a key useless; a running server notices with the next request.

    :returns: False if there is no such key.
    """
    with _locked(path):
        keys = read_keys(path)
        if not any(key.id == key_id for key in keys):
            return False
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _write(path, [replace(key, revoked_at=key.revoked_at or now) if key.id == key_id else key for key in keys])
    return True


def _digest(secret: str, salt: str) -> str:
    """Hash a secret of 256 random bits: nothing to guess, so nothing to slow down."""
    return hashlib.blake2b(
        secret.encode("utf-8", "surrogatepass"), salt=bytes.fromhex(salt), digest_size=32
    ).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(path: Path, keys: list[ApiKey]) -> None:
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"keys": [asdict(key) for key in keys]}, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)

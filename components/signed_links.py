"""Links that carry who they are for, what for and until when, signed so that nobody can make one."""

import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt

_ALGORITHM = "HS256"
_SECRET_BYTES = 32


class SignedLinks:
    """
    Signs and checks the tokens of links.

    A token is for one purpose only: one that opens the memory page answers no expert question.

    ### Usage example

    ```python
    from components.signed_links import SignedLinks

    links = SignedLinks("a secret of at least 32 characters, or so")
    token = links.sign("memories", {"user": "ann"}, seconds=60)
    assert links.read("memories", token)["user"] == "ann"
    assert links.read("experts", token) is None
    ```
    """

    def __init__(self, secret: str) -> None:
        """
        Keep the secret.

        :param secret: Shared by all server processes.
        """
        self._secret = secret

    def sign(self, purpose: str, claims: dict[str, Any], *, seconds: float) -> str:
        """
        Make a token.

        :param purpose: What the link is for.
        :param claims: JSON values; readable by whoever holds the link.
        :param seconds: How long it is valid.
        :returns: A token of URL-safe characters.
        """
        expires = datetime.now(UTC) + timedelta(seconds=seconds)
        return jwt.encode({**claims, "aud": purpose, "exp": expires}, self._secret, algorithm=_ALGORITHM)

    def read(self, purpose: str, token: str) -> dict[str, Any] | None:
        """
        Check a token.

        :param purpose: What it must be for.
        :param token: As it came with a request.
        :returns: Its claims; None if it is forged, expired or for something else.
        """
        try:
            return jwt.decode(
                token, self._secret, algorithms=[_ALGORITHM], audience=purpose, options={"require": ["exp", "aud"]}
            )
        except jwt.InvalidTokenError:
            return None


def link_secret(configured: str | None, data_dir: Path) -> str:
    """
    Give the secret that links are signed with.

    :param configured: HAYRECALL_LINK_SECRET; needed where several servers stand behind one address.
    :param data_dir: Where a secret is made once, if none is configured.
    """
    if configured:
        return configured
    path = data_dir / "link_secret"
    data_dir.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(_SECRET_BYTES))
    try:
        os.link(draft, path)  # the first process wins, and nobody ever reads half a secret
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text()

"""Who is asking: the tenant and the rights from the key, the user from what can be believed, and nobody by default."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import jwt
from pydantic import SecretStr
from starlette.datastructures import Headers

from hayrecall.server.api_keys import ApiKey, Role
from hayrecall.server.errors import ApiError
from hayrecall.server.text import cleaned

_TOKEN_HEADER = "x-openwebui-user-jwt"  # noqa: S105 - a header's name
_ISSUER = "open-webui"
_LEEWAY_SECONDS = 30


@dataclass(frozen=True)
class Identity:
    """A caller: tenant and role of the key, and the user that the key or a signed token speaks for."""

    tenant_id: str
    role: Role
    user_id: str | None = None
    groups: tuple[str, ...] = ()

    def required_user(self) -> str:
        """
        Give the user id.

        :raises ApiError: 401 `identity_required` if nobody is named.
        """
        if self.user_id is None:
            message = "Say whose memory is meant: a signed user token, or, with a trusted key, X-OpenWebUI-User-Id."
            raise ApiError(401, "identity_required", message)
        return self.user_id

    def require(self, role: Role) -> None:
        """
        Insist on a role of the key.

        :raises ApiError: 403 if the key has another one.
        """
        if self.role != role:
            raise ApiError(403, "missing_role", f"This needs an API key with the role {role}.")


class Identities:
    """Tells who a request comes from."""

    def __init__(self, jwt_secret: SecretStr | None) -> None:
        """
        Keep what signed tokens are checked with.

        :param jwt_secret: Secret that Open WebUI signs user tokens with; None refuses all tokens.
        """
        self._jwt_secret = jwt_secret.get_secret_value() if jwt_secret else None

    def identify(self, key: ApiKey, headers: Headers, user_field: Any = None) -> Identity:
        """
        Tell who asks.

        :param key: The key that the request showed.
        :param headers: The request's headers.
        :param user_field: The body's `user`, if there is one.
        :returns: The identity; without a user where nobody is named by anything that can be believed.
        :raises ApiError: 401 for a token that is not valid, and where two sources name different users.
        """
        token = _one(headers, _TOKEN_HEADER)
        signed = self._verified(token) if token else {}
        named = _header(headers, "x-openwebui-user-id")
        email = _header(headers, "x-openwebui-user-email")
        claims = {signed["sub"]} if signed else set()
        if signed:
            # A plain header beside a token is no source of its own, but must not contradict it.
            _agree(signed["sub"], named)
            _agree(signed.get("email"), email)
        if key.trusted:
            claims |= {claim for claim in (named or ("" if signed else email), _field(user_field)) if claim}
        if len(claims) > 1:
            raise ApiError(401, "conflicting_identity", "The request names more than one user.")
        groups = _groups(headers) if key.trusted else ()
        return Identity(key.tenant, key.role, next(iter(claims), None), groups)

    def _verified(self, token: str) -> Mapping[str, Any]:
        if self._jwt_secret is None:
            message = "User tokens cannot be checked here: HAYRECALL_OPENWEBUI_JWT_SECRET is not set."
            raise ApiError(401, "invalid_identity", message)
        try:
            with warnings.catch_warnings():
                # Open WebUI takes a secret of any length; that a short one is weak, docs/security.md says.
                warnings.simplefilter("ignore", jwt.InsecureKeyLengthWarning)
                claims: dict[str, Any] = jwt.decode(
                    token,
                    self._jwt_secret,
                    algorithms=["HS256"],
                    issuer=_ISSUER,
                    leeway=_LEEWAY_SECONDS,
                    options={"require": ["exp", "sub", "iss"], "verify_aud": False},
                )
        except jwt.PyJWTError as error:
            message = "The user token has expired." if isinstance(error, jwt.ExpiredSignatureError) else ""
            raise ApiError(401, "invalid_identity", message or "The user token is not valid.") from None
        user_id = cleaned(claims["sub"])
        if not user_id.strip():
            raise ApiError(401, "invalid_identity", "The user token names nobody.")
        return {**claims, "sub": user_id}


def _agree(signed: Any, plain: str) -> None:
    if plain and signed and plain != signed:
        raise ApiError(401, "conflicting_identity", "The request names more than one user.")


def _header(headers: Headers, name: str) -> str:
    """Read a header as the UTF-8 that clients send, not as the Latin-1 that HTTP assumes."""
    return cleaned(_one(headers, name).encode("latin-1", "replace").decode("utf-8", "replace"))


def _one(headers: Headers, name: str) -> str:
    """Give a header that may be repeated, but not with another value."""
    values = {value.strip() for value in headers.getlist(name) if value.strip()}
    if len(values) > 1:
        raise ApiError(401, "conflicting_identity", "The request names more than one user.")
    return next(iter(values), "")


def _field(user: Any) -> str:
    """Read the `user` field: a text, or what Open WebUI puts there for its own pipelines."""
    value = user.get("id") if isinstance(user, Mapping) else user
    return cleaned(value).strip() if isinstance(value, str) else ""


def _groups(headers: Headers) -> tuple[str, ...]:
    """Read group names: separated by commas, each percent-encoded once."""
    names = (unquote(name.strip()) for name in headers.get("x-openwebui-user-groups", "").split(","))
    return tuple(dict.fromkeys(cleaned(name) for name in names if name))

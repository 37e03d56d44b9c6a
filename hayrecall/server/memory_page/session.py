"""Who looks at the page: from a short-lived link into a cookie of the browser."""

import hmac
import secrets
from dataclasses import asdict, dataclass

from starlette.requests import Request
from starlette.responses import Response

from components.memory_store import Scope
from components.signed_links import SignedLinks
from contracts.turn import Locale
from hayrecall.server.errors import ApiError

LINK_PURPOSE = "memory-page"
LINK_SECONDS = 300

_SESSION_PURPOSE = "memory-session"
_SESSION_SECONDS = 3600
_COOKIE = "hayrecall_memories"


@dataclass(frozen=True)
class PageSession:
    """A person at the page; `form_key` is in every form, so that no other site can send one."""

    tenant: str
    user: str
    locale: Locale
    form_key: str

    @classmethod
    def from_link(cls, links: SignedLinks, token: str) -> "PageSession | None":
        """Open a session with the token of a link; None if it is not valid, or no longer."""
        claims = links.read(LINK_PURPOSE, token)
        if claims is None:
            return None
        return cls(claims["tenant"], claims["user"], claims["locale"], secrets.token_urlsafe(16))

    @classmethod
    def of(cls, links: SignedLinks, request: Request) -> "PageSession | None":
        """Find the session of a browser; None if it has none, or it is over."""
        claims = links.read(_SESSION_PURPOSE, request.cookies.get(_COOKIE, ""))
        return cls(**{name: claims[name] for name in cls.__dataclass_fields__}) if claims else None

    @property
    def scope(self) -> Scope:
        """Whose memories are shown."""
        return Scope(self.tenant, user_id=self.user)

    def keep(self, links: SignedLinks, response: Response, *, secure: bool) -> None:
        """Let the browser keep the session; scripts and other sites' forms cannot use it."""
        token = links.sign(_SESSION_PURPOSE, asdict(self), seconds=_SESSION_SECONDS)
        response.set_cookie(
            _COOKIE, token, max_age=_SESSION_SECONDS, path="/memories", httponly=True, samesite="lax", secure=secure
        )

    def check_form(self, form_key: str) -> None:
        """
        Make sure that a form comes from our own page.

        :raises ApiError: 403 if it does not.
        """
        if not hmac.compare_digest(form_key.encode(), self.form_key.encode()):
            raise ApiError(403, "foreign_form", "The form does not come from this page.")

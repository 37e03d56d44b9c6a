"""The routes of the memory page: plain forms and links, each answered with a page or a redirect to one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from components.memory_store import MemoryRecord, MemoryStore
from contracts.errors import StaleMemoryError
from contracts.turn import LOCALES, Locale
from hayrecall.server.caller import caller, services_of
from hayrecall.server.client_hints import client_locale
from hayrecall.server.errors import ApiError
from hayrecall.server.memory_embedding import embedded_memory, embedded_query
from hayrecall.server.memory_page.rendering import page, texts
from hayrecall.server.memory_page.session import LINK_PURPOSE, LINK_SECONDS, PageSession
from hayrecall.server.memory_routes import every, history_of
from hayrecall.server.page_route import BAD_FORM, page_route
from hayrecall.server.services import Services
from hayrecall.server.text import cleaned

_PAGE = 50  # memories
_FOUND = 20  # memories
_NOTICES = {
    BAD_FORM: "bad_form",
    401: "no_session",
    403: "foreign_form",
    404: "unknown",
    413: "too_long",
    422: "too_long",
}


def link_router() -> APIRouter:
    """Build the route with which a chat client gets a link for its user."""
    router = APIRouter(tags=["memory"])

    @router.get("/v1/memories/link")
    async def link(request: Request, locale: Locale | None = None) -> JSONResponse:
        """Make a link to the memory page that opens it for the user, for five minutes."""
        who, services = caller(request), services_of(request)
        claims = {"tenant": who.tenant_id, "user": who.required_user(), "locale": locale or _locale(request)}
        token = services.links.sign(LINK_PURPOSE, claims, seconds=LINK_SECONDS)
        url = f"{_address(request, services)}/memories?token={token}"
        return JSONResponse({"object": "link", "url": url, "expires_in": LINK_SECONDS})

    return router


def _failure(request: Request, status_code: int) -> Response:
    notice = _NOTICES.get(status_code, "unavailable")
    return page("notice", _locale(request), status_code=status_code, notice=notice)


def _session(request: Request) -> PageSession:
    session = PageSession.of(services_of(request).links, request)
    if session is None:
        raise ApiError(401, "no_session", "The page needs a link.")
    return session


Person = Annotated[PageSession, Depends(_session)]
FormKey = Annotated[str, Form()]


def page_router() -> APIRouter:
    """Build the page's routes."""
    router = APIRouter(prefix="/memories", route_class=page_route(_failure), include_in_schema=False)

    @router.get("")
    async def show_all(request: Request, token: str = "", q: str = "", cursor: str = "", notice: str = "") -> Response:
        services = services_of(request)
        if token:
            return _entered(request, services, token)
        session = _session(request)
        store, query = services.memories, cleaned(q).strip()
        following: str | None = None
        if query:
            (found,) = await store.search(await embedded_query(services, query), [session.scope], top_k=_FOUND)
            memories = [MemoryRecord.from_document(document) for document in found]
        else:
            memories, following = await _listed(store, session, cursor)
        state = await services.queue.user_state(session.tenant, session.user)
        return page(
            "list",
            session.locale,
            notice=notice,
            session=session,
            memories=memories,
            next_cursor=following,
            query=query,
            learning=state.learning,
        )

    @router.get("/export")
    async def export(request: Request, session: Person) -> Response:
        records = [{**r.public(), "statement": r.statement} async for r in every(_store(request), session.scope)]
        headers = {"Content-Disposition": 'attachment; filename="memories.json"'}
        return JSONResponse({"object": "list", "data": records, "next_cursor": None}, headers=headers)

    @router.post("/learning")
    async def learn(
        request: Request, session: Person, form_key: FormKey = "", learning: Annotated[str, Form()] = ""
    ) -> Response:
        session.check_form(form_key)
        await services_of(request).queue.set_learning(session.tenant, session.user, learning == "on")
        return _back("switched")

    @router.post("/erase")
    async def erase(request: Request, session: Person, form_key: FormKey = "") -> Response:
        session.check_form(form_key)
        services = services_of(request)
        await services.queue.erase(session.tenant, session.user, memories=services.memories)
        return _back("erased")

    @router.get("/{memory_id}")
    async def show_one(request: Request, session: Person, memory_id: str, notice: str = "") -> Response:
        return await _shown(request, session, memory_id, notice=notice)

    @router.post("/{memory_id}/edit")
    async def edit(  # noqa: PLR0917 - a form's fields
        request: Request,
        session: Person,
        memory_id: str,
        form_key: FormKey = "",
        etag: Annotated[str, Form()] = "",
        text: Annotated[str, Form()] = "",
    ) -> Response:
        session.check_form(form_key)
        services, text = services_of(request), cleaned(text).strip()
        if await services.memories.get(session.scope, memory_id) is None:
            raise ApiError(404, "memory_not_found", "There is no such memory.")
        if not text:
            return await _shown(request, session, memory_id, notice="blank", status_code=400)
        try:
            vector = await embedded_memory(services, text)
            await services.memories.edit(session.scope, memory_id, text, vector, etag=etag or None)
        except StaleMemoryError:
            return await _shown(request, session, memory_id, notice="changed", status_code=412, draft=text)
        except ApiError as error:
            return await _shown(
                request, session, memory_id, notice="too_long", status_code=error.status_code, draft=text
            )
        return RedirectResponse(f"/memories/{memory_id}?notice=saved", 303)

    @router.post("/{memory_id}/delete")
    async def delete(request: Request, session: Person, memory_id: str, form_key: FormKey = "") -> Response:
        session.check_form(form_key)
        if not await _store(request).delete(session.scope, [memory_id]):
            raise ApiError(404, "memory_not_found", "There is no such memory.")
        return _back("deleted")

    return router


def _entered(request: Request, services: Services, token: str) -> Response:
    """Turn a link into a session, and take the token out of the address."""
    session = PageSession.from_link(services.links, token)
    if session is None:
        raise ApiError(401, "no_session", "The link is not valid.")
    response = RedirectResponse("/memories", 303)
    session.keep(services.links, response, secure=_address(request, services).startswith("https:"))
    return response


async def _listed(store: MemoryStore, session: PageSession, cursor: str) -> tuple[list[MemoryRecord], str | None]:
    try:
        return await store.list(session.scope, limit=_PAGE, cursor=cursor or None)
    except ValueError:  # somebody changed the address: start again
        return await store.list(session.scope, limit=_PAGE)


async def _shown(
    request: Request, session: PageSession, memory_id: str, *, notice: str, status_code: int = 200, draft: str = ""
) -> Response:
    store = _store(request)
    memory = await store.get(session.scope, memory_id)
    if memory is None:
        raise ApiError(404, "memory_not_found", "There is no such memory.")
    history = await history_of(store, session.scope, memory)
    values = {"session": session, "memory": memory, "history": history, "draft": draft}
    return page("memory", session.locale, status_code=status_code, notice=notice, **values)


def _back(notice: str) -> Response:
    return RedirectResponse(f"/memories?notice={notice}", 303)


def _store(request: Request) -> MemoryStore:
    return services_of(request).memories


def _address(request: Request, services: Services) -> str:
    """Give the address under which people reach this server: as it is set, else as the request came."""
    settings = services.settings
    configured = settings.public_url if "public_url" in settings.model_fields_set else None
    return (configured or str(request.base_url)).rstrip("/")


def _locale(request: Request) -> Locale:
    services = services_of(request)
    session = PageSession.of(services.links, request)
    chosen = request.query_params.get("locale")
    if chosen in LOCALES and chosen in texts():
        return chosen
    return session.locale if session else client_locale(request.headers) or services.settings.default_locale

"""What people see and undo of what is remembered: their own memories, and an organization's for its admins."""

import re
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from components.memory_store import MemoryRecord, MemoryStore, Scope
from contracts.errors import StaleMemoryError
from hayrecall.server.caller import caller, services_of
from hayrecall.server.errors import ApiError
from hayrecall.server.memory_bodies import MemorySettings, MemoryText, SearchQuery, read_body, schema_of
from hayrecall.server.memory_embedding import embedded_memory, embedded_query

_MOST = 1000  # memories a page
_ENTITY_TAG = re.compile(r'(?P<weak>W/)?"(?P<tag>[^"]*)"')
ScopeOf = Callable[[Request], Scope]


def user_scope(request: Request) -> Scope:
    """Confine a request to the memories of the user that it comes from."""
    who = caller(request)
    return Scope(who.tenant_id, user_id=who.required_user())


def organization_scope(request: Request, namespace: str = "") -> Scope:
    """Confine a request to the organization's memories; only admins may make it."""
    who = caller(request)
    who.require("admin")
    return Scope(who.tenant_id, organization_namespace=namespace)


def memory_router(prefix: str, scope_of: Callable[..., Scope]) -> APIRouter:
    """
    Build the routes for one kind of owner.

    :param prefix: Path of the list.
    :param scope_of: Dependency that tells whose memories are meant.
    """
    router = APIRouter(prefix=prefix, tags=["memory"])
    Owner = Annotated[Scope, Depends(scope_of)]  # noqa: N806 - a type

    @router.get("")
    async def list_memories(
        request: Request,
        scope: Owner,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = 50,
        cursor: str | None = None,
        include: Literal["superseded"] | None = None,
    ) -> JSONResponse:
        """List memories, newest first."""
        try:
            page, following = await _store(request).list(
                scope, limit=limit, cursor=cursor, include_superseded=include == "superseded"
            )
        except ValueError as error:
            raise ApiError(400, "invalid_cursor", f"`cursor`: {error}.") from None
        return _listing([record.public() for record in page], following)

    @router.delete("", status_code=204)
    async def forget_everything(request: Request, scope: Owner) -> Response:
        """Erase everything about the owner, also what is still on its way to be stored."""
        services = services_of(request)
        if scope.user_id is None:
            await services.memories.delete_all(scope)
        else:
            await services.queue.erase(scope.tenant_id, scope.user_id, memories=services.memories)
        return Response(status_code=204)

    @router.post("/search", openapi_extra=schema_of(SearchQuery))
    async def search(request: Request, scope: Owner) -> JSONResponse:
        """Find memories by meaning."""
        asked = await read_body(request, SearchQuery)
        vector = await embedded_query(services_of(request), asked.query)
        (found,) = await _store(request).search(vector, [scope], top_k=asked.limit)
        return _listing([{**MemoryRecord.from_document(d).public(), "score": d.score} for d in found], None)

    @router.get("/export")
    async def export(request: Request, scope: Owner) -> JSONResponse:
        """Give everything that is remembered, superseded memories included, as a file."""
        records = [{**r.public(), "statement": r.statement} async for r in every(_store(request), scope)]
        headers = {"Content-Disposition": 'attachment; filename="memories.json"'}
        return JSONResponse({"object": "list", "data": records, "next_cursor": None}, headers=headers)

    @router.get("/{memory_id}")
    async def show(request: Request, scope: Owner, memory_id: str) -> JSONResponse:
        """Give one memory with the turn that it came from, and what it superseded."""
        record = await _owned(request, scope, memory_id)
        history = [{**r.public(), "statement": r.statement} for r in await history_of(_store(request), scope, record)]
        shown = {**record.public(), "statement": record.statement, "history": history}
        return JSONResponse(shown, headers=_tagged(record))

    @router.patch("/{memory_id}", openapi_extra=schema_of(MemoryText))
    async def edit(request: Request, scope: Owner, memory_id: str) -> JSONResponse:
        """Correct a memory; the text before stays in its history."""
        old = await _owned(request, scope, memory_id)
        text = (await read_body(request, MemoryText)).text
        etag = _check_version(request, old)
        vector = await embedded_memory(services_of(request), text)
        try:
            record = await _store(request).edit(scope, memory_id, text, vector, etag=etag)
        except StaleMemoryError:
            raise _stale() from None
        if record is None:
            raise _unknown()
        return JSONResponse(record.public(), headers=_tagged(record))

    @router.delete("/{memory_id}", status_code=204)
    async def delete(request: Request, scope: Owner, memory_id: str) -> Response:
        """Delete a memory with its history."""
        record = await _owned(request, scope, memory_id)
        _check_version(request, record)
        await _store(request).delete(scope, [memory_id])
        return Response(status_code=204)

    return router


def settings_router() -> APIRouter:
    """Build the routes of a user's learning switch."""
    router = APIRouter(prefix="/v1/memories/settings", tags=["memory"])
    Owner = Annotated[Scope, Depends(user_scope)]  # noqa: N806 - a type

    @router.get("")
    async def show(request: Request, scope: Owner) -> MemorySettings:
        """Tell whether new things are remembered."""
        state = await services_of(request).queue.user_state(scope.tenant_id, str(scope.user_id))
        return MemorySettings(learning=state.learning)

    @router.put("", openapi_extra=schema_of(MemorySettings))
    async def change(request: Request, scope: Owner) -> MemorySettings:
        """Switch learning on or off; off, nothing is remembered, and nothing that was is used."""
        learning = (await read_body(request, MemorySettings)).learning
        await services_of(request).queue.set_learning(scope.tenant_id, str(scope.user_id), learning)
        return MemorySettings(learning=learning)

    return router


async def every(store: MemoryStore, scope: Scope) -> AsyncIterator[MemoryRecord]:
    """Go through all memories of an owner, newest first, superseded ones included."""
    cursor: str | None = None
    while True:
        page, cursor = await store.list(scope, limit=_MOST, cursor=cursor, include_superseded=True)
        for record in page:
            yield record
        if cursor is None:
            return


async def history_of(store: MemoryStore, scope: Scope, record: MemoryRecord) -> list[MemoryRecord]:
    """Give what a memory superseded, and what that superseded before, newest first."""
    older: dict[str, list[MemoryRecord]] = {}
    async for other in every(store, scope):
        if other.superseded_by:
            older.setdefault(other.superseded_by, []).append(other)
    chain, found = [record.id], []
    while chain:
        before = older.pop(chain.pop(), [])
        found += before
        chain += [other.id for other in before]
    return found


async def _owned(request: Request, scope: Scope, memory_id: str) -> MemoryRecord:
    record = await _store(request).get(scope, memory_id)
    if record is None:
        raise _unknown()
    return record


def _store(request: Request) -> MemoryStore:
    return services_of(request).memories


def _listing(data: list[dict[str, Any]], following: str | None) -> JSONResponse:
    return JSONResponse({"object": "list", "data": data, "next_cursor": following})


def _tagged(record: MemoryRecord) -> dict[str, str]:
    return {"ETag": f'"{record.etag}"'}


def _check_version(request: Request, record: MemoryRecord) -> str | None:
    """
    Give the version that a client insists on, as RFC 9110 reads `If-Match`; None if any will do.

    :raises ApiError: 412, if the memory has another one. A weak tag never counts as the same version.
    """
    header = ", ".join(request.headers.getlist("if-match")).strip()
    if header in ("", "*"):
        return None
    if record.etag not in (found["tag"] for found in _ENTITY_TAG.finditer(header) if not found["weak"]):
        raise _stale()
    return record.etag


def _unknown() -> ApiError:
    return ApiError(404, "memory_not_found", "There is no such memory.")


def _stale() -> ApiError:
    return ApiError(412, "memory_changed", "The memory has changed since it was read.")

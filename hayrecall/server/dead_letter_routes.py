"""Dead letters over HTTP: admins list, look at, replay and discard those of their tenant."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from components.dead_letters import DeadLetter, DeadLetterQueue
from contracts.errors import ErasedError, PayloadError
from hayrecall.server.caller import caller, services_of
from hayrecall.server.errors import ApiError

LetterId = Annotated[int, Path(ge=1, le=2**63 - 1, description="As the list shows it.")]


def dead_letter_router() -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/v1/dead-letters", tags=["operation"])

    @router.get("")
    async def show_all(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        cursor: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
    ) -> dict[str, Any]:
        """List the dead letters of the key's tenant, the oldest first, without what was said."""
        queue, tenant_id = await _asked(request)
        letters = await queue.list(tenant_id=tenant_id, after=cursor, limit=limit)
        following = str(letters[-1].id) if len(letters) == limit else None
        return {"object": "list", "data": [_public(letter) for letter in letters], "next_cursor": following}

    @router.get("/{letter_id}")
    async def show(request: Request, letter_id: LetterId) -> dict[str, Any]:
        """Show a dead letter with its content; null if its large body is gone."""
        queue, tenant_id = await _asked(request)
        letter = await queue.get(letter_id, tenant_id=tenant_id)
        if letter is None:
            raise _missing()
        try:
            content = await queue.content(letter_id, tenant_id=tenant_id)
        except PayloadError:
            content = None
        return _public(letter) | {"content": content}

    @router.post("/{letter_id}/replay", status_code=202)
    async def replay(request: Request, letter_id: LetterId) -> dict[str, Any]:
        """Give a dead letter to the writers again."""
        queue, tenant_id = await _asked(request)
        try:
            replayed = await queue.replay(letter_id, tenant_id=tenant_id)
        except ErasedError:
            raise ApiError(409, "erased", "Its user erased everything since then; it is gone.") from None
        except PayloadError:  # of the user's state: replaying could store what the user wants forgotten
            message = "Whether its user erased everything since then cannot be told; it is kept."
            raise ApiError(409, "user_state_unreadable", message) from None
        if not replayed:
            raise _missing()
        return {"id": letter_id, "object": "dead_letter", "status": "replayed"}

    @router.delete("/{letter_id}", status_code=204)
    async def discard(request: Request, letter_id: LetterId) -> Response:
        """Discard a dead letter for good."""
        queue, tenant_id = await _asked(request)
        if not await queue.discard(letter_id, tenant_id=tenant_id):
            raise _missing()
        return Response(status_code=204)

    return router


async def _asked(request: Request) -> tuple[DeadLetterQueue, str]:
    """Give the dead letters and the tenant that an admin's key belongs to."""
    who = caller(request)
    who.require("admin")
    return await services_of(request).queue.dead_letters(), who.tenant_id


def _public(letter: DeadLetter) -> dict[str, Any]:
    told = asdict(letter)
    del told["owner"]  # tokens, which mean nothing to anybody
    return {**told, "object": "dead_letter", "died_at": letter.died_at.isoformat()}


def _missing() -> ApiError:
    return ApiError(404, "dead_letter_not_found", "There is no such dead letter.")

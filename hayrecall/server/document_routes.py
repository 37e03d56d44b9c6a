"""Documents over HTTP: admins add and remove them, everyone sees those that they may read."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse

from components.document_ingestor import DocumentIngestor, StoredDocument
from hayrecall.server.caller import caller
from hayrecall.server.errors import ApiError
from hayrecall.server.identity import Identity
from hayrecall.server.text import cleaned

_LONGEST_NAME = 1024  # characters


def document_router(ingestor: DocumentIngestor) -> APIRouter:
    """
    Build the routes.

    :param ingestor: What takes documents in, and knows which there are.
    """
    router = APIRouter(prefix="/v1/documents", tags=["documents"])

    @router.post("")
    async def add(
        request: Request,
        file: Annotated[list[UploadFile], File(description="One or more files; the name is the document's source.")],
        group: Annotated[list[str] | None, Form(description="Groups that may read them; none: everyone.")] = None,
    ) -> JSONResponse:
        """Store files; one that cannot be read is skipped, with the reason."""
        who = caller(request)
        who.require("admin")
        groups = [name for name in map(cleaned, group or []) if name.strip()]
        outcomes = []
        for upload in file:
            source = cleaned(upload.filename or "").strip()[:_LONGEST_NAME]
            outcomes.append(await ingestor.ingest(await upload.read(), source, tenant_id=who.tenant_id, groups=groups))
        return _listing([asdict(outcome) for outcome in outcomes])

    @router.get("")
    async def show(request: Request) -> JSONResponse:
        """List documents by source: all of them for an admin, else those that the caller may read."""
        who = caller(request)
        documents = await ingestor.documents(who.tenant_id)
        return _listing([_shown(document, who) for document in documents if _may_read(document, who)])

    @router.delete("", status_code=204)
    async def remove(request: Request, source: Annotated[str, Query(min_length=1)]) -> Response:
        """Remove a document with all its passages."""
        who = caller(request)
        who.require("admin")
        if not await ingestor.delete(who.tenant_id, source):
            raise ApiError(404, "document_not_found", "There is no such document.")
        return Response(status_code=204)

    return router


def _may_read(document: StoredDocument, who: Identity) -> bool:
    return who.role == "admin" or not document.groups or bool(set(document.groups) & set(who.groups))


def _shown(document: StoredDocument, who: Identity) -> dict[str, Any]:
    """Give a document without the names of groups that are not the caller's."""
    groups = [group for group in document.groups if who.role == "admin" or group in who.groups]
    return {**asdict(document), "groups": groups, "ingested_at": document.ingested_at.isoformat()}


def _listing(data: list[dict[str, Any]]) -> JSONResponse:
    return JSONResponse({"object": "list", "data": data, "next_cursor": None})

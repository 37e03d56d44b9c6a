"""Qdrant's REST API over the engine: routes, request bodies, answers and errors in Qdrant's shape."""

import hmac
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from qdrant_client.http import models
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hayrecall.local.bounded_body import read_body
from hayrecall.local.engine import reads, writes
from hayrecall.local.engine.collection import Collection
from hayrecall.local.engine.refusals import EngineError, refuse
from hayrecall.local.engine.service import Service

_LARGEST_BODY_BYTES = 32 * 1024 * 1024
_REPORTED_ERRORS = 5
# One process, one copy of the data: each of these asks for less than what is always given.
_KNOWN_PARAMETERS = {"wait", "ordering", "consistency", "timeout"}
_COLLECTION = "/collections/{name}"
_POINTS = f"{_COLLECTION}/points"

_READS: list[tuple[str, Any, Callable[[Collection, Any], Any]]] = [
    (_POINTS, models.PointRequest, reads.retrieve),
    (f"{_POINTS}/query", models.QueryRequest, reads.query),
    (f"{_POINTS}/query/batch", models.QueryRequestBatch, reads.query_batch),
    (f"{_POINTS}/query/groups", models.QueryGroupsRequest, reads.query_groups),
    (f"{_POINTS}/scroll", models.ScrollRequest, reads.scroll),
    (f"{_POINTS}/count", models.CountRequest, reads.count),
    (f"{_COLLECTION}/facet", models.FacetRequest, reads.facet),
]
_WRITES: list[tuple[str, str, Any, Callable[[Collection, Any], writes.Write], bool]] = [
    ("PUT", _POINTS, models.PointInsertOperations, writes.upsert, True),
    ("POST", f"{_POINTS}/delete", models.PointsSelector, writes.delete, False),
    ("POST", f"{_POINTS}/payload", models.SetPayload, writes.set_payload, True),
    ("PUT", f"{_POINTS}/payload", models.SetPayload, writes.overwrite_payload, True),
    ("POST", f"{_POINTS}/payload/delete", models.DeletePayload, writes.delete_payload, False),
    ("POST", f"{_POINTS}/payload/clear", models.PointsSelector, writes.clear_payload, False),
    ("PUT", f"{_POINTS}/vectors", models.UpdateVectors, writes.update_vectors, True),
    ("POST", f"{_POINTS}/vectors/delete", models.DeleteVectors, writes.delete_vectors, False),
]

Handler = Callable[[Request], Awaitable[Any]]


class QdrantApi:
    """Answers Qdrant's REST API from one engine."""

    def __init__(self, service: Service, *, api_key: str | None = None) -> None:
        """
        Serve an engine.

        :param service: Engine.
        :param api_key: Key that clients must send; none when not given.
        """
        self._service = service
        self._api_key = api_key

    def app(self) -> Starlette:
        """
        Build the application.

        :returns: ASGI application; its lifespan closes the engine.
        """
        routes = [
            Route("/", _title),
            *(Route(path, _healthy) for path in ("/healthz", "/livez", "/readyz")),
            self._route("GET", "/collections", self._list),
            self._route("GET", _COLLECTION, self._info),
            self._route("GET", f"{_COLLECTION}/exists", self._exists),
            self._route("PUT", _COLLECTION, self._create),
            self._route("DELETE", _COLLECTION, self._delete),
            self._route("PUT", f"{_COLLECTION}/index", self._create_index),
            self._route("DELETE", f"{_COLLECTION}/index/{{field}}", self._delete_index),
            self._route("POST", f"{_POINTS}/batch", self._batch),
            self._route("POST", "/snapshots", self._copy),
            self._route("GET", "/snapshots", self._copies),
            self._route("DELETE", "/snapshots/{snapshot}", self._delete_copy),
            *(self._route("POST", path, self._read(model, read)) for path, model, read in _READS),
            *(
                self._route(method, path, self._write(model, convert, grows=grows))
                for method, path, model, convert, grows in _WRITES
            ),
        ]
        return Starlette(
            routes=routes,
            lifespan=lambda _: self._service.running(),
            exception_handlers={HTTPException: _unknown_route},
        )

    def _route(self, method: str, path: str, handle: Handler) -> Route:
        async def answer(request: Request) -> Response:
            started = time.perf_counter()
            try:
                self._authorize(request)
                unknown = sorted(set(request.query_params) - _KNOWN_PARAMETERS)
                if unknown:
                    refuse(f"query parameter `{unknown[0]}` is not supported by the embedded engine")
                return _respond(await handle(request), started)
            except EngineError as failure:
                return _respond(None, started, failure.status, failure.message)
            except ValidationError as failure:
                message = f"Format error in JSON body: {_explain(failure)}"
                return _respond(None, started, HTTPStatus.BAD_REQUEST, message)
            except (ValueError, OverflowError) as failure:  # Edge's own classes do not take a value, such as a path
                return _respond(None, started, HTTPStatus.BAD_REQUEST, f"Wrong input: {failure}")
            except OSError as failure:
                message = f"Service internal error: {failure}"
                return _respond(None, started, HTTPStatus.INTERNAL_SERVER_ERROR, message)

        return Route(path, answer, methods=[method])

    def _authorize(self, request: Request) -> None:
        if self._api_key is None:
            return
        sent = request.headers.get("api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(sent.encode(), self._api_key.encode()):
            message = "Must provide an API key or an Authorization bearer token"
            raise EngineError(HTTPStatus.UNAUTHORIZED, message)

    def _read(self, model: Any, read: Callable[[Collection, Any], Any]) -> Handler:
        adapter = TypeAdapter(model)

        async def handle(request: Request) -> Any:
            body = _parse(adapter, await _body(request))
            return read(self._service.folder.collection(request.path_params["name"]), body)

        return handle

    def _write(self, model: Any, convert: Callable[[Collection, Any], writes.Write], *, grows: bool) -> Handler:
        adapter = TypeAdapter(model)

        async def handle(request: Request) -> Any:
            name, body = request.path_params["name"], _parse(adapter, await _body(request))
            change = convert(self._service.folder.collection(name), body)
            return (await self._service.write(name, [change], wait=_wait(request), grows=grows))[0]

        return handle

    async def _batch(self, request: Request) -> Any:
        name, body = request.path_params["name"], _parse(TypeAdapter(models.UpdateOperations), await _body(request))
        changes = writes.batch(self._service.folder.collection(name), body)
        return await self._service.write(name, changes, wait=_wait(request), grows=True)

    async def _list(self, _: Request) -> Any:
        return {"collections": [{"name": name} for name in self._service.folder.names]}

    async def _info(self, request: Request) -> Any:
        return self._service.folder.collection(request.path_params["name"]).info()

    async def _exists(self, request: Request) -> Any:
        return {"exists": request.path_params["name"] in self._service.folder.names}

    async def _create(self, request: Request) -> Any:
        body = _parse(TypeAdapter(models.CreateCollection), await _body(request))
        return await self._service.create(request.path_params["name"], body)

    async def _delete(self, request: Request) -> Any:
        return await self._service.delete(request.path_params["name"])

    async def _create_index(self, request: Request) -> Any:
        body = _parse(TypeAdapter(models.CreateFieldIndex), await _body(request))
        return await self._service.create_index(request.path_params["name"], body, wait=_wait(request))

    async def _delete_index(self, request: Request) -> Any:
        name, field = request.path_params["name"], request.path_params["field"]
        return await self._service.delete_index(name, field, wait=_wait(request))

    async def _copy(self, _: Request) -> Any:
        return await self._service.copy()

    async def _copies(self, _: Request) -> Any:
        return self._service.copies()

    async def _delete_copy(self, request: Request) -> Any:
        return await self._service.delete_copy(request.path_params["snapshot"])


async def _title(_: Request) -> Response:
    # The API that is spoken is the installed client's own, so it never warns of a version that does not fit.
    title = {"title": "qdrant - vector search engine", "version": version("qdrant-client")}
    return Response(
        orjson.dumps({**title, "commit": f"edge-{version('qdrant-edge-py')}"}), media_type="application/json"
    )


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("healthz check passed")


async def _unknown_route(request: Request, failure: Exception) -> Response:
    status = failure.status_code if isinstance(failure, HTTPException) else HTTPStatus.NOT_FOUND
    message = f"{request.method} {request.url.path} is not supported by the embedded engine"
    return _respond(None, time.perf_counter(), status, message)


def _respond(result: Any, started: float, status: int = HTTPStatus.OK, error: str | None = None) -> Response:
    answer = {
        "result": result,
        "status": "ok" if error is None else {"error": error},
        "time": time.perf_counter() - started,
    }
    return Response(orjson.dumps(answer), status, media_type="application/json")


async def _body(request: Request) -> bytes:
    body = await read_body(request, largest_bytes=_LARGEST_BODY_BYTES)
    if body is None:
        message = f"Payload error: JSON payload is larger than allowed (limit: {_LARGEST_BODY_BYTES} bytes)."
        raise EngineError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    return body


def _parse(adapter: TypeAdapter[Any], body: bytes) -> Any:
    if b"NaN" in body or b"Infinity" in body:  # pydantic reads them, JSON and Qdrant do not
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError as failure:
            refuse(f"Format error in JSON body: {failure}")
    return adapter.validate_json(body)


def _wait(request: Request) -> bool:
    return request.query_params.get("wait") == "true"


def _explain(failure: ValidationError) -> str:
    errors = sorted(failure.errors(include_url=False), key=lambda error: error["type"] != "extra_forbidden")
    return "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors[:_REPORTED_ERRORS])

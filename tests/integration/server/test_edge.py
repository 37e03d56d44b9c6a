"""Nothing is open that should not be: routes, keys, sizes, rates, headers."""

import time

import httpx
import jwt
import pytest

from contracts.manifest import Manifest
from hayrecall.server.api_keys import add_key, read_keys, revoke_key
from hayrecall.server.app import create
from hayrecall.server.hayhooks_app import served_paths
from tests.integration.server.conftest import ECHO, JWT_SECRET, serving

pytestmark = pytest.mark.integration
CHAT = {"model": "echo", "messages": [{"role": "user", "content": "When does the canteen open?"}]}
OPEN = {"/healthz", "/readyz", "/metrics"}


def test_only_the_wanted_routes_exist(served):
    paths = served_paths(create(served.settings, Manifest.load(served.settings)))

    assert paths == {
        "/openapi.json",
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/models",
        "/v1/chat/completions",
        "/v1/dead-letters",
        "/v1/dead-letters/{letter_id}",
        "/v1/dead-letters/{letter_id}/replay",
        "/v1/memories",
        "/v1/memories/search",
        "/v1/memories/export",
        "/v1/memories/link",
        "/memories",
        "/memories/export",
        "/memories/learning",
        "/memories/erase",
        "/memories/{memory_id}",
        "/memories/{memory_id}/edit",
        "/memories/{memory_id}/delete",
        "/v1/memories/settings",
        "/v1/memories/{memory_id}",
        "/v1/organization-memories",
        "/v1/organization-memories/search",
        "/v1/organization-memories/export",
        "/v1/organization-memories/{memory_id}",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/deploy_files",
        "/deploy-yaml",
        "/undeploy/echo",
        "/draw/echo",
        "/echo/run",
        "/v1/files",
        "/v1/responses",
        "/docs",
    ],
)
def test_what_hayhooks_could_do_more_is_gone(served, path):
    with served.client(key=served.admin) as client:
        assert [client.get(path).status_code, client.post(path, json={}).status_code] == [404, 404]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_that_ask_for_the_head_alone_get_it(served, path):
    answer = httpx.head(served.url + path)

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Content-Type"] == "application/json"


def test_every_route_but_those_of_monitoring_needs_a_key(served):
    document = served.client().get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            answer = httpx.request(method, served.url + path)
            expected = 200 if path in OPEN else 401
            assert answer.status_code == expected, (method, path)
            if path not in OPEN:
                assert answer.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer hayrecall-000000000000-x", "Basic abc", "Bearer \xff", "Token {key}", "{key}"],
)
def test_a_key_is_shown_as_a_bearer_token_or_not_at_all(served, header):
    value = header.format(key=served.trusted).strip().encode("latin-1")
    answer = httpx.get(f"{served.url}/v1/models", headers={b"Authorization": value} if value else {})

    assert answer.status_code == 401


def test_a_revoked_key_is_refused_at_once(served):
    path = served.settings.api_keys_file
    shown = add_key(path, name="to be revoked")
    with served.client(key=shown) as client:
        assert client.get("/v1/models").status_code == 200
        revoke_key(path, next(key.id for key in read_keys(path) if key.name == "to be revoked"))
        assert client.get("/v1/models").status_code == 401


@pytest.mark.parametrize(
    ("claims", "secret", "algorithm"),
    [
        ({}, "a foreign secret that is also long enough for the algorithm", "HS256"),
        ({"exp": 1}, JWT_SECRET, "HS256"),
        ({"iss": "mallory"}, JWT_SECRET, "HS256"),
        ({}, None, "none"),
    ],
)
def test_a_user_token_that_is_not_valid_is_refused_and_asks_no_model(served, model_server, claims, secret, algorithm):
    content = {"sub": "ann", "iss": "open-webui", "exp": int(time.time()) + 60, **claims}
    token = jwt.encode(content, secret, algorithm)

    with served.client(**{"X-OpenWebUI-User-Jwt": token}) as client:
        answers = [client.post("/v1/chat/completions", json=CHAT), client.get("/v1/memories")]

    assert [answer.status_code for answer in answers] == [401, 401]
    assert not model_server.log


def test_memories_without_an_identity_are_refused(served):
    for key in (served.untrusted, served.trusted):
        with served.client(key=key) as client:
            answer = client.get("/v1/memories")
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "identity_required")


def test_every_answer_has_strict_headers_and_a_request_id(served):
    for path in ("/healthz", "/v1/models", "/nowhere"):
        headers = served.client().get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-request-id"]
        assert "access-control-allow-origin" not in headers


def test_an_unknown_address_is_answered_in_openais_shape(served):
    with served.client() as client:
        assert client.get("/nowhere").json()["error"]["code"] == "not_found"
        assert client.put("/v1/models").json()["error"]["code"] == "method_not_allowed"


def test_a_body_over_the_limit_is_refused_declared_or_not(tmp_path, model_server, nats_url, qdrant_url):
    urls = {"llm_base_url": model_server.url, "embedding_base_url": model_server.url}
    limits = {"max_body_bytes": 2000, "rate_limit_per_minute": 6}
    with serving(tmp_path, ECHO, nats_url=nats_url, qdrant_url=qdrant_url, **urls, **limits) as small:
        long = {**CHAT, "messages": [{"role": "user", "content": "x" * 2000}]}
        with small.client() as client:
            declared = client.post("/v1/chat/completions", json=long)
            chunked = client.post(
                "/v1/chat/completions",
                content=iter([b'{"model": "', b"x" * 1500, b"x" * 1500]),
                headers={"Content-Type": "application/json"},
            )
            for answer in (declared, chunked):
                assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
                assert "2000" in answer.json()["error"]["message"]

            answers = [client.get("/v1/models") for _ in range(5)]
            assert [answer.status_code for answer in answers] == [200] * 4 + [429]
            assert answers[-1].json()["error"]["code"] == "rate_limit_exceeded"
            assert 0 < int(answers[-1].headers["Retry-After"]) <= 10
        assert small.client(key=small.admin).get("/v1/models").status_code == 200
        assert small.client().get("/healthz").status_code == 200

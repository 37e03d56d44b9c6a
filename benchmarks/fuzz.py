"""Fuzz every route of the OpenAPI document; counts answers of 5xx and hangs. `--seconds` bounds the run."""

import argparse
import contextlib
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, openapi

from hayrecall.local.nats_server import NatsServer
from tests.conftest import Child
from tests.integration.server.conftest import serving
from tests.scripted_model_server import ScriptedModelServer

_LONGEST_ANSWER_SECONDS = 20
_EXAMPLES = 40  # for a route and round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as parts:
        figures = _fuzz(Path(folder), parts, time.monotonic() + arguments.seconds)
    for name, figure in figures.items():
        print(f"{name:<12} {figure}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures))
    raise SystemExit(1 if figures["failures"] else 0)


def _fuzz(folder: Path, parts: contextlib.ExitStack, deadline: float) -> dict[str, Any]:
    for name in ("nats", "engine", "server"):
        (folder / name).mkdir()
    models = ScriptedModelServer().start()
    parts.callback(models.stop)
    nats = NatsServer(folder / "nats")
    nats.start()
    parts.callback(nats.stop)
    engine = Child(
        "hayrecall.local.engine", "--dir", str(folder / "engine" / "data"), "--port", "0", ports_file=folder / "ports"
    )
    parts.callback(engine.stop)
    urls = {"llm_base_url": models.url, "embedding_base_url": models.url}
    served = parts.enter_context(serving(folder / "server", None, nats_url=nats.url, qdrant_url=engine.url, **urls))
    client = parts.enter_context(served.client("ann", key=served.admin))
    client.timeout = httpx.Timeout(_LONGEST_ANSWER_SECONDS)
    schema: Any = openapi.from_dict(client.get("/openapi.json").json())
    statuses: Counter[int] = Counter()
    failures: list[str] = []
    operations = [operation.ok() for operation in schema.get_all_operations()]
    while time.monotonic() < deadline:
        for operation in operations:
            probe_operation(operation, client, statuses, failures)
            if time.monotonic() > deadline:
                break
    return {
        "requests": sum(statuses.values()),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "failures": failures,
    }


def probe_operation(
    operation: Any, client: httpx.Client, statuses: Counter[int], failures: list[str], *, examples: int = _EXAMPLES
) -> None:
    """
    Send valid and invalid requests to one operation.

    :param operation: Of schemathesis.
    :param client: Its headers and address are used.
    :param statuses: Counts the answers.
    :param failures: Collects what must not be.
    :param examples: Requests to send.
    """

    @given(case=st.one_of(operation.as_strategy(), operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def probe(case: Any) -> None:
        try:
            answer = case.call(session=None, base_url=str(client.base_url), headers=dict(client.headers))
        except OSError as error:
            failures.append(f"{case.method} {case.path}: {type(error).__name__}")
            return
        statuses[answer.status_code] += 1
        if answer.status_code >= 500:
            failures.append(f"{case.method} {case.formatted_path}: {answer.status_code}")

    probe()


if __name__ == "__main__":
    main()

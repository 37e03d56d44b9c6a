"""What an operator sees of a writer, and what can be done with dead letters."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import nats
import pytest
from typer.testing import CliRunner

from hayrecall.cli.app import app
from tests.writer_world import eventually

SECRET = "canary5120"


class Webhook:
    """Hears alerts over real HTTP."""

    def __init__(self, status):
        heard = self.heard = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alert"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.mark.parametrize("status", [204, 500])
async def test_a_webhook_hears_of_a_dead_letter_without_what_was_said_and_may_fail(world, status):
    user = f"alarming-{status}"
    world.model_server.default("extract", SECRET)
    with Webhook(status) as webhook:
        async with world.writer(dead_letter_webhook=webhook.url, writer_max_attempts=1):
            said = await world.say(user, SECRET)
            letter = await world.wait_for_dead_letter(str(said.run_id))
            await eventually(lambda: _heard(webhook))
            world.model_server.default("extract", {"facts": [{"text": "factNext", "about": "user"}]})
            await world.say(user, "factNext")
            await world.wait_for_texts(user, ["factNext"])
    (alert,) = webhook.heard
    assert {name: alert[name] for name in ("event", "id", "run_id", "reason", "attempts")} == {
        "event": "dead_letter",
        "id": letter.id,
        "run_id": str(said.run_id),
        "reason": "unreadable",
        "attempts": 1,
    }
    assert SECRET not in json.dumps(alert)


async def _heard(webhook):
    return webhook.heard


async def test_health_readiness_and_metrics_are_served(world, tmp_path):
    ports_file = tmp_path / "writer.json"
    async with world.writer(ports_file=ports_file, writer_port=0), httpx.AsyncClient() as client:
        await eventually(lambda: _exists(ports_file))
        url = json.loads(ports_file.read_text())["url"]

        async def ready():
            return (await client.get(f"{url}/readyz")).status_code == 200

        await eventually(ready)
        assert (await client.get(f"{url}/healthz")).status_code == 200
        assert (await client.get(f"{url}/readyz")).json()["parts"] == {"nats": True, "pulls": True, "qdrant": True}
        metrics = (await client.get(f"{url}/metrics")).text
        letters = await world.dead_letters.count()
        assert f"hayrecall_dead_letters {letters:.1f}" in metrics
        for name in ("hayrecall_queued_turns", "hayrecall_oldest_queued_turn_seconds", "hayrecall_writer_turns_total"):
            assert f"\n{name}" in metrics


async def _exists(path):
    return path.exists()


async def test_dead_letters_are_listed_shown_replayed_and_discarded_from_the_command_line(world):
    world.model_server.default("extract", "unreadable")
    async with world.writer(writer_max_attempts=1):
        runs = [str((await world.say("clerk", f"fact{SECRET}{number}")).run_id) for number in range(2)]
        letters = [await world.wait_for_dead_letter(run) for run in runs]

    environment = {"HAYRECALL_NATS_URL": world.nats_url, "HAYRECALL_DATA_DIR": str(world.data_dir)}

    async def command(*arguments):
        result = await asyncio.to_thread(CliRunner().invoke, app, ["deadletters", *arguments], env=environment)
        return result.exit_code, result.stdout

    code, listed = await command("list", "--json")
    _, shown = await command("show", str(letters[0].id), "--text")
    _, foreign = await command("list", "--tenant", "other")
    missing, said = await command("show", "999999")
    assert code == 0
    assert [letter["run_id"] for letter in json.loads(listed) if letter["run_id"] in runs] == runs
    assert SECRET not in listed
    assert SECRET in shown
    assert foreign == "There are no dead letters.\n"
    assert (missing, said) == (1, "There is no dead letter 999999 of tenant default.\n")

    assert await command("replay", str(letters[0].id)) == (0, "1 replayed\n")
    assert await command("discard", str(letters[1].id)) == (0, "1 discarded\n")
    world.model_server.default("extract", {"facts": [{"text": "factClerk", "about": "user"}]})
    async with world.writer():
        await world.wait_for_texts("clerk", ["factClerk"])
    (memory,) = await world.memories("clerk")
    assert memory.run_id == runs[0]


async def test_a_dead_letter_under_no_tenants_name_is_listed_and_discarded_with_all_tenants(world, nats_url):
    environment = {"HAYRECALL_NATS_URL": world.nats_url, "HAYRECALL_DATA_DIR": str(world.data_dir)}
    client = await nats.connect(nats_url)
    try:
        forged = (await client.jetstream().publish("dead.made.up", b"no turn")).seq
    finally:
        await client.close()

    async def command(*arguments):
        result = await asyncio.to_thread(CliRunner().invoke, app, ["deadletters", *arguments], env=environment)
        return result.exit_code, result.stdout

    _, ours = await command("list", "--json")
    _, everywhere = await command("list", "--json", "--all-tenants")

    assert forged not in {letter["id"] for letter in json.loads(ours)}
    assert forged in {letter["id"] for letter in json.loads(everywhere)}
    assert await command("discard", str(forged), "--all-tenants") == (0, "1 discarded\n")

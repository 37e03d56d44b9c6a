"""The real nats-server as a child process."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nats
import pytest

from hayrecall.local.failures import FolderInUseError, PartFailedError
from hayrecall.local.nats_cluster import start_cluster
from hayrecall.local.nats_server import NatsServer

pytestmark = pytest.mark.integration


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


async def publish(url, text):
    client = await nats.connect(url, allow_reconnect=False)
    stream = client.jetstream()
    await stream.add_stream(name="S", subjects=["s"])
    await stream.publish("s", text)
    await client.close()


async def stored_messages(url):
    client = await nats.connect(url, allow_reconnect=False)
    count = (await client.jetstream().stream_info("S")).state.messages
    await client.close()
    return count


async def test_a_killed_server_comes_back_at_its_address_with_every_confirmed_message(tmp_path):
    with NatsServer(tmp_path / "nats") as server:
        address = server.url
        await publish(server.url, b"kept")

        server.kill()
        server.start()

        assert server.url == address
        assert await stored_messages(server.url) == 1


async def test_the_next_run_takes_the_port_of_the_last_one_and_keeps_its_streams(tmp_path):
    with NatsServer(tmp_path / "nats") as first:
        address = first.url
        await publish(first.url, b"kept")
    assert first.exit_code == 0

    with NatsServer(tmp_path / "nats") as second:
        assert second.url == address
        assert await stored_messages(second.url) == 1


def test_every_write_is_synced_before_it_is_confirmed(tmp_path):
    with (
        NatsServer(tmp_path / "nats") as server,
        urllib.request.urlopen(f"{server.monitoring_url}/jsz?config=1") as answer,
    ):
        assert json.load(answer)["config"]["sync_always"] is True


def test_a_second_server_on_the_same_store_is_refused(tmp_path):
    with NatsServer(tmp_path / "nats"), pytest.raises(FolderInUseError, match="in use by process"):
        NatsServer(tmp_path / "nats").start()


def test_a_port_in_use_is_told_with_the_servers_own_words(tmp_path):
    with NatsServer(tmp_path / "one") as one:
        taken = NatsServer(tmp_path / "two", port=one.port)
        with pytest.raises(PartFailedError, match="address already in use"):
            taken.start()
        taken.stop()


def test_a_client_without_the_token_is_turned_away(tmp_path):
    with NatsServer(tmp_path / "nats", token="secret") as server:
        assert "secret" in server.url
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client, client.makefile("rwb") as wire:
            wire.readline()
            wire.write(b'CONNECT {"verbose": false}\r\nPING\r\n')
            wire.flush()
            assert b"Authorization Violation" in wire.readline()


def test_the_server_goes_down_with_a_parent_that_is_killed(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from hayrecall.local.nats_server import NatsServer\n"
        "server = NatsServer(Path(sys.argv[1])); server.start(); print(server.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "nats")], stdout=subprocess.PIPE)
    with parent:
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)

    wait_until(lambda: not is_alive(child))
    with NatsServer(tmp_path / "nats"):
        pass


async def test_three_servers_are_one_cluster_that_survives_one_of_them(tmp_path):
    with start_cluster(3, tmp_path) as servers:
        client = await nats.connect([server.url for server in servers])
        stream = client.jetstream(timeout=15)
        await stream.add_stream(name="S", subjects=["s"], num_replicas=3)
        await stream.publish("s", b"one")

        leader = (await stream.stream_info("S")).cluster.leader
        next(server for server in servers if server.server_name == leader).kill()

        deadline = time.monotonic() + 20
        while True:
            try:
                await stream.publish("s", b"two", timeout=2)
                break
            except (nats.errors.Error, nats.js.errors.Error):
                assert time.monotonic() < deadline
        assert (await stream.stream_info("S")).state.messages >= 2
        await client.close()

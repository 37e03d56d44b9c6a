"""Three (or n) nats-servers as one cluster on this machine, for tests and benchmarks."""

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hayrecall.local.failures import PartFailedError
from hayrecall.local.nats_server import NatsServer

_POLL_SECONDS = 0.05


@contextmanager
def start_cluster(
    size: int, directory: Path, *, timeout_seconds: float = 30, sync_interval: str = "always"
) -> Iterator[list[NatsServer]]:
    """
    Run a cluster for the time of a `with` block.

    Any server of it may be killed and started again (`kill`, then `start`): it keeps its address.

    :param size: Number of servers; 3 for streams with three replicas.
    :param directory: Folder for all stores.
    :param timeout_seconds: How long they may take to find each other and elect a leader.
    :param sync_interval: As `NatsServer` takes it.
    :returns: The servers; join their `url`s with commas for `NATS_URL`.
    :raises PartFailedError: If they are not one cluster in time.
    """
    route_ports = _free_ports(size)
    client_ports = _free_ports(size)
    routes = [f"nats://127.0.0.1:{port}" for port in route_ports]
    servers = [
        NatsServer(
            directory / f"node-{number}",
            name=f"node-{number}",
            port=client_ports[number],
            cluster={"name": "hayrecall", "listen": f"127.0.0.1:{route_ports[number]}", "routes": routes},
            sync_interval=sync_interval,
        )
        for number in range(size)
    ]
    with ExitStack() as running:
        for server in servers:
            running.callback(server.stop)
            server.launch()
        for server in servers:
            server.wait_ready(timeout_seconds)
        _wait_for_leader(servers, timeout_seconds)
        yield servers


def _wait_for_leader(servers: list[NatsServer], timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not all(_knows_all(server, len(servers)) for server in servers):
        if time.monotonic() > deadline:
            message = f"the {len(servers)} NATS servers did not elect a leader within {timeout_seconds:g} s"
            raise PartFailedError(message)
        time.sleep(_POLL_SECONDS)


def _knows_all(server: NatsServer, size: int) -> bool:
    with urllib.request.urlopen(f"{server.monitoring_url}/jsz", timeout=5) as answer:  # noqa: S310 - our own loopback
        cluster = json.load(answer).get("meta_cluster", {})
    return bool(cluster.get("leader")) and cluster.get("cluster_size") == size


def _free_ports(count: int) -> list[int]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in sockets]

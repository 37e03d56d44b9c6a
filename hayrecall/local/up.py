"""Everything on this machine: the parts that are not configured, then the server and the writer, as children."""

import errno
import ipaddress
import os
import socket
import time

from contracts.errors import ConfigurationError
from contracts.manifest import Manifest
from contracts.settings import Settings
from hayrecall.local.application_part import ApplicationPart
from hayrecall.local.console import Console
from hayrecall.local.data_folder import DataFolder, RunningInstance, write_private
from hayrecall.local.local_stack import start_parts
from hayrecall.local.parts import configured, parts_to_start
from hayrecall.local.stop_signals import StopRequested, stop_signals
from hayrecall.local.supervisor import Supervisor
from hayrecall.server.api_keys import add_key

_READY_SECONDS = 120
_FINISH_SECONDS = 60  # for answers and writes that are in flight
_LOOK_EVERY_SECONDS = 0.25


def up(settings: Settings) -> int:
    """
    Start everything, say where it answers, keep it running until SIGTERM or Ctrl-C, and stop it.

    :param settings: Settings; a part whose address is set is used, not started.
    :returns: Exit code 0.
    :raises ConfigurationError: If the settings or the manifest are wrong, or the port is in use.
    :raises LocalError: If a part cannot be started.
    """
    console = Console()
    folder = DataFolder(settings.data_dir)
    supervisor = Supervisor(console.tell)
    Manifest.load(settings)
    _require_keys_for_others(settings)
    names = parts_to_start(settings, ("nats", "qdrant", "embedder", "model"))
    with folder.locked(), stop_signals():
        _require_free_port(settings)
        try:
            environment = start_parts(names, folder, supervisor, console)
            _require_key(settings, folder, console)
            url = _start_application(folder, supervisor, console, environment)
            folder.announce(RunningInstance(os.getpid(), url, configured(settings) | environment))
            console.ready(url)
            while True:
                time.sleep(_LOOK_EVERY_SECONDS)
                supervisor.revive()
        except StopRequested:
            console.tell("stopping; what is in flight is finished first, a second Ctrl-C ends it at once")
            return 0
        finally:
            _stop(supervisor)


def _start_application(
    folder: DataFolder, supervisor: Supervisor, console: Console, environment: dict[str, str]
) -> str:
    parts = [
        ApplicationPart(
            name,
            command,
            log_file=folder.logs / f"{name}.log",
            environment=environment,
            inherited_descriptors=folder.lock.descriptors,
        )
        for name, command in (("server", "serve"), ("writer", "writer"))
    ]
    supervisor.start(parts)
    with console.waiting("starting server, writer"):
        supervisor.wait_ready(parts, timeout_seconds=_READY_SECONDS)
    return parts[0].url


def _stop(supervisor: Supervisor) -> None:
    try:
        supervisor.stop(timeout_seconds=_FINISH_SECONDS)
    except StopRequested:
        supervisor.kill()


def _require_key(settings: Settings, folder: DataFolder, console: Console) -> None:
    if "api_keys_file" in settings.model_fields_set or settings.api_keys_file is None:
        return
    if not (folder.api_key_file.exists() and settings.api_keys_file.exists()):
        key = add_key(settings.api_keys_file, tenant="default", role="admin", trusted=True, name="up")
        write_private(folder.api_key_file, key)
    console.tell(f"API key: in {folder.api_key_file}")


def _require_keys_for_others(settings: Settings) -> None:
    if "api_keys_file" in settings.model_fields_set or _is_loopback(settings.host):
        return
    message = (
        f"HAYRECALL_HOST is {settings.host}, which others can reach: set HAYRECALL_API_KEYS_FILE and add keys with "
        "`hayrecall keys add`, or use 127.0.0.1"
    )
    raise ConfigurationError(message)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _require_free_port(settings: Settings) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"port {settings.port} of {settings.host} is in use; set HAYRECALL_PORT to a free one"
            raise ConfigurationError(message) from None
        message = f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}"
        raise ConfigurationError(message) from None

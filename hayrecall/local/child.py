"""A process that this one starts, watches and stops."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from hayrecall.local.failures import PartFailedError
from hayrecall.local.parent_death import follow_parent

_POLL_SECONDS = 0.02
_LOG_ROTATION_BYTES = 10 * 1024 * 1024


class Child(ABC):
    """
    A child in a session of its own, so that Ctrl-C reaches only us, and one that follows us when we are killed.

    Start it from the main thread: Linux ends it when the thread that started it ends.
    """

    def __init__(
        self,
        name: str,
        log_file: Path,
        *,
        environment: Mapping[str, str] | None = None,
        inherited_descriptors: Sequence[int] = (),
    ) -> None:
        """
        Describe the process.

        :param name: What people read, such as "NATS".
        :param log_file: Where its output goes; appended to, and moved to `.1` at a start when larger than 10 MB.
        :param environment: Variables beside our own ones.
        :param inherited_descriptors: File descriptors that stay open in it, such as a lock's.
        """
        self.name = name
        self.log_file = log_file
        self.environment = dict(environment or {})
        self.inherited_descriptors = tuple(inherited_descriptors)
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start_bytes = 0
        self._is_told_to_stop = False

    @property
    def pid(self) -> int | None:
        """Give the process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """Give the exit code once it has ended (negative: the signal)."""
        return self._process.poll() if self._process is not None else None

    def start(self, timeout_seconds: float = 30) -> Self:
        """
        Start the process and wait until it can be used.

        :param timeout_seconds: How long that may take.
        :raises PartFailedError: If it does not become ready.
        """
        self.launch()
        return self.wait_ready(timeout_seconds)

    def launch(self) -> None:
        """Start the process and return at once; see `wait_ready`."""
        command = self._prepare()
        self._is_told_to_stop = False
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_ROTATION_BYTES:
            self.log_file.replace(self.log_file.with_name(self.log_file.name + ".1"))
        with self.log_file.open("ab") as log:
            self._log_start_bytes = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
                preexec_fn=follow_parent,  # noqa: PLW1509 - calls one bound C function
                pass_fds=self.inherited_descriptors,
            )

    def is_ready(self) -> bool:
        """
        Ask once whether it can be used.

        :raises PartFailedError: If it has ended.
        """
        if self.exit_code is not None:
            message = (
                f"{self.name} ended with exit code {self.exit_code}: {self.last_log_line()} (log: {self.log_file})"
            )
            raise PartFailedError(message)
        return self._check_ready()

    def wait_ready(self, timeout_seconds: float = 30) -> Self:
        """
        Wait until it can be used.

        :param timeout_seconds: How long.
        :raises PartFailedError: If it ends before, or the time is over; it is stopped then.
        """
        deadline = time.monotonic() + timeout_seconds
        while not self.is_ready():
            if time.monotonic() > deadline:
                self.stop()
                message = f"{self.name} was not ready after {timeout_seconds:g} s (log: {self.log_file})"
                raise PartFailedError(message)
            time.sleep(_POLL_SECONDS)
        return self

    def tell_to_stop(self) -> None:
        """Send SIGTERM, once: many servers take a second one for impatience."""
        if self._process is not None and self._process.poll() is None and not self._is_told_to_stop:
            self._is_told_to_stop = True
            self._process.send_signal(signal.SIGTERM)

    def stop(self, timeout_seconds: float = 15) -> int | None:
        """
        Tell it to stop, wait, and end it with SIGKILL when it does not.

        :param timeout_seconds: How long it may take to finish what is in flight.
        :returns: Its exit code; None if it was never started.
        """
        if self._process is None:
            return None
        self.tell_to_stop()
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        return self._process.returncode

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        """Give what it wrote since its last start."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start_bytes)
            return log.read().decode("utf-8", "replace")

    def last_log_line(self) -> str:
        """Give the last line of its output, which mostly says why it ended."""
        lines = [line for line in self.output().splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it wrote nothing"

    def __enter__(self) -> Self:
        """Start it and wait until it is ready."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    @abstractmethod
    def _prepare(self) -> list[str]:
        """Clean up after the last run and give the command line."""

    @abstractmethod
    def _check_ready(self) -> bool:
        """Ask once, and set `url` when it is ready."""

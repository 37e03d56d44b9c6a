"""What `hayrecall up` says: lines on stderr, with a spinner and a progress bar on a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rich.console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

_LINE_EVERY_SECONDS = 5
_MIB = 2**20


class Console:
    """Speaks to the operator; stdout is left to the one line that scripts wait for."""

    def __init__(self) -> None:
        """Find out whether somebody watches."""
        self._console = rich.console.Console(stderr=True, highlight=False, soft_wrap=True)

    def tell(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False)

    def ready(self, url: str) -> None:
        """Print the line that scripts wait for."""
        print(f"ready {url}", flush=True)  # noqa: T201 - the interface of the command

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """
        Show that something is going on.

        :param what: What, such as "starting NATS".
        """
        if not self._console.is_terminal:
            yield
            return
        with self._console.status(what):
            yield

    @contextmanager
    def download(self, what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """
        Show a download.

        :param what: What is downloaded.
        :param total_bytes: Its size.
        :returns: A function that takes the number of bytes so far.
        """
        if not self._console.is_terminal:
            yield self._line_by_line(what, total_bytes)
            return
        columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()]
        with Progress(*columns, TimeRemainingColumn(), console=self._console) as progress:
            task = progress.add_task(what, total=total_bytes)
            yield lambda done: progress.update(task, completed=done)

    def _line_by_line(self, what: str, total_bytes: int) -> Callable[[int], None]:
        last = time.monotonic()

        def update(done: int) -> None:
            nonlocal last
            if time.monotonic() - last >= _LINE_EVERY_SECONDS:
                last = time.monotonic()
                self.tell(f"{what}: {done // _MIB} of {total_bytes // _MIB} MiB ({done * 100 // total_bytes} %)")

        return update

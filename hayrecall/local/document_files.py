"""Which files the ingestion takes, and what they are called."""

from collections.abc import Sequence
from pathlib import Path

from components.document_ingestor import MIME_TYPES
from contracts.errors import ConfigurationError


def document_files(paths: Sequence[Path]) -> list[Path]:
    """
    List files and the documents in folders, each once.

    :param paths: Files, of any type, and folders.
    :raises ConfigurationError: If a path is not there, or a folder holds no file of a known type.
    """
    named: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            msg = f"there is no {path}"
            raise ConfigurationError(msg)
        found = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if _is_document(inner, path))
        if not found:
            msg = f"{path} holds no file of a type that can be read: {', '.join(MIME_TYPES)}"
            raise ConfigurationError(msg)
        for file in found:
            named.setdefault(source_of(file), file)
    return list(named.values())


def source_of(path: Path) -> str:
    """
    Name a file, in the same way wherever the command is run from the same folder.

    :param path: The file.
    :returns: Its path from the current folder; for a file elsewhere the whole path.
    """
    whole = path.resolve()
    here = Path.cwd().resolve()
    return (whole.relative_to(here) if whole.is_relative_to(here) else whole).as_posix()


def _is_document(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.is_file() and not hidden and path.suffix.lower() in MIME_TYPES

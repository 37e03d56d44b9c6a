"""One line a record on stderr, tracebacks included: text for a person at a terminal, JSON for a collector."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from contracts.errors import HayrecallError

_STANDARD = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime", "taskName", "color_message"}
_OURS = ("hayrecall", "components", "contracts", "pipelines")
_ErrorInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _Formatter(logging.Formatter):
    """Writes records; of foreign exceptions only type and place, since their messages may quote a user."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        error = self.formatException(record.exc_info) if record.exc_info else ""
        if not self._as_json:
            return f"{time} {record.levelname:<7} {record.name}: {record.getMessage()}" + (error and f"\n{error}")
        told: dict[str, Any] = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in record.__dict__.items() if name not in _STANDARD},
        }
        return json.dumps({**told, "error": error} if error else told, default=str, ensure_ascii=False)

    def formatException(self, ei: _ErrorInfo) -> str:  # noqa: N802 - the standard library's name
        lines: list[str] = []
        error = ei[1]
        while error is not None:
            message = f": {error}" if isinstance(error, HayrecallError) else ""
            lines = [*traceback.format_tb(error.__traceback__), f"{type(error).__qualname__}{message}\n", *lines]
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "".join(lines).rstrip()


def configure_logs() -> None:
    """Send every library's records through one handler: hayhooks' own drops tracebacks."""
    from loguru import logger as loguru  # noqa: PLC0415 - hayhooks' logger, there once hayhooks is

    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(as_json=not sys.stderr.isatty()))
    root = logging.getLogger()
    root.handlers, root.level = [handler], logging.WARNING
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "fastapi", "haystack"):
        library = logging.getLogger(name)
        library.handlers, library.propagate, library.level = [], True, logging.WARNING
    # A turn that is refused, or answered by another branch, leaves components without their input: that is no fault.
    logging.getLogger("haystack.core.pipeline").setLevel(logging.ERROR)
    loguru.remove()
    loguru.add(handler, level="WARNING", format="{message}")

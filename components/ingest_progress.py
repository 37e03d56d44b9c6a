"""How an ingestion tells how far it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class IngestProgress:
    """
    A callback that travels through a pipeline's sockets without being copied.

    :param tell: Takes the passages of the current document that are done, and how many it has.
    """

    tell: Callable[[int, int], None]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Stay the same callback on every hop."""
        return self

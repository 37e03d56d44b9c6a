"""What a run came to."""

from dataclasses import dataclass, field
from typing import Any

from contracts.errors import Outcome


@dataclass
class Ending:
    """What a run came to: the `hayrecall` field of the response, and what OpenAI's fields say."""

    outcome: Outcome = "answered"
    reason: str = ""
    question: str = ""
    sources: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str = "stop"
    usage: dict[str, Any] | None = None

    def public(self, run_id: str) -> dict[str, Any]:
        """Give the `hayrecall` field."""
        return {
            "outcome": self.outcome,
            "reason": self.reason,
            "run_id": run_id,
            "sources": self.sources,
            "question": self.question,
        }

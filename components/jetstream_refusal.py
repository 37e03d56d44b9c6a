"""What NATS answers when it refuses."""

from typing import Any

from contracts.errors import QueueUnavailableError


class RefusedError(QueueUnavailableError):
    """NATS answered, with an error of its API."""

    def __init__(self, code: int, description: str) -> None:
        """
        Keep the code.

        :param code: NATS's own number of the error.
        :param description: NATS's own words.
        """
        super().__init__(f"NATS refused: {description} ({code})")
        self.code = code


def check(answer: dict[str, Any]) -> dict[str, Any]:
    """
    Hand on an answer that is no refusal.

    :param answer: JSON of JetStream's API.
    :raises RefusedError: If it is one.
    """
    if error := answer.get("error"):
        raise RefusedError(error.get("err_code", error.get("code", 0)), error.get("description", ""))
    return answer

"""
Every error of our own; its branch decides what happens.

HayrecallError                      a PipelineRuntimeError, so Haystack passes it on unwrapped
├── RefusalError                    chat: a normal answer in the user's language, with an outcome
│   ├── InputTooLargeError          input_too_large
│   ├── EmptyCondensationError      condensation_empty
│   ├── FewShotRejectedError        few_shot_rejected
│   ├── NoAccessibleKnowledgeError  no_accessible_knowledge
│   ├── ExpertConsentError          expert_consent: may the experts be asked?
│   ├── ExpertPendingError          expert_pending: they were
│   ├── ExpertDeclinedError         expert_declined: the user said no
│   └── ExpertErroredError          expert_errored: they could not be reached
├── TransientError                  an outage. chat: 503; writer: tried again, without limit
│   ├── ModelUnavailableError
│   ├── EmbedderUnavailableError
│   ├── StoreUnavailableError
│   └── QueueUnavailableError
├── TurnError                       the turn's own fault. chat: 502; writer: tried again, `max_attempts` times
│   ├── UnreadableModelOutputError
│   ├── RejectedRequestError
│   └── WriterKilledError
├── PoisonError                     writer: dead-lettered at once
│   └── PayloadError
├── ErasedError                     writer: the user erased everything meanwhile: acknowledged, nothing stays
├── StaleMemoryError                memory API: 412, the memory changed since it was read
└── ConfigurationError              start: a sentence and exit code 2
"""

from typing import ClassVar, Literal

from haystack.core.errors import PipelineRuntimeError

Outcome = Literal[
    "answered",
    "meta",
    "input_too_large",
    "condensation_empty",
    "few_shot_rejected",
    "context_insufficient",
    "expert_pending",
    "expert_consent",
    "expert_declined",
    "expert_errored",
    "no_accessible_knowledge",
]


class HayrecallError(PipelineRuntimeError):
    """Base of all our errors; the message is a sentence for an operator, never shown to a user."""

    def __init__(self, message: str) -> None:
        """
        Keep the message.

        :param message: Sentence that says what happened and, where it helps, what to do. Holds no user text.
        """
        super().__init__(component_name=None, component_type=None, message=message)


class RefusalError(HayrecallError):
    """The assistant does not answer this turn, and says so in the user's language."""

    outcome: ClassVar[Outcome]

    def __init__(self, message: str, *, reason: str = "", question: str = "") -> None:
        """
        Keep what the response tells beside the text.

        :param message: Sentence for an operator.
        :param reason: Short reason for the `hayrecall` field of the response.
        :param question: The condensed question, where there is one already.
        """
        super().__init__(message)
        self.reason = reason
        self.question = question


class InputTooLargeError(RefusalError):
    """The last user turn does not fit the model beside the pipeline's own prompts."""

    outcome = "input_too_large"


class EmptyCondensationError(RefusalError):
    """The condenser gave no question; there is no falling back to the raw message."""

    outcome = "condensation_empty"


class FewShotRejectedError(RefusalError):
    """The few-shot guard found that this assistant is not meant to answer the question."""

    outcome = "few_shot_rejected"


class NoAccessibleKnowledgeError(RefusalError):
    """The collection holds documents, and this user may read none of them."""

    outcome = "no_accessible_knowledge"


class ExpertConsentError(RefusalError):
    """Documents and memories do not suffice; the user is asked whether the experts may be."""

    outcome = "expert_consent"


class ExpertPendingError(RefusalError):
    """The experts have been asked; `reason` is the id of the question."""

    outcome = "expert_pending"


class ExpertDeclinedError(RefusalError):
    """The user does not want the experts to be asked."""

    outcome = "expert_declined"


class ExpertErroredError(RefusalError):
    """The experts' channel did not take the question; the user may say yes again."""

    outcome = "expert_errored"


class TransientError(HayrecallError):
    """A part that we need is down, slow or overloaded: the same request may succeed later."""


class ModelUnavailableError(TransientError):
    """A chat model refused the connection, timed out, or answered 429 or 5xx."""


class EmbedderUnavailableError(TransientError):
    """The embedding endpoint refused the connection, timed out, or answered 429 or 5xx."""


class StoreUnavailableError(TransientError):
    """Qdrant did not answer, or answered 5xx."""


class QueueUnavailableError(TransientError):
    """NATS did not confirm in time."""


class TurnError(HayrecallError):
    """What the turn itself causes, also on the next attempt as far as we know."""


class UnreadableModelOutputError(TurnError):
    """A model answered, but not with what it was asked for."""


class RejectedRequestError(TurnError):
    """A backend rejected this very request (400, 413, 422)."""


class WriterKilledError(TurnError):
    """Earlier deliveries of the turn ended without a decision: its handling seems to end the process."""


class PoisonError(HayrecallError):
    """No attempt can ever succeed."""


class PayloadError(PoisonError):
    """What came from the queue is not a turn: unknown version, blank question, missing or damaged body."""


class ErasedError(HayrecallError):
    """The user erased their memory after this turn was said."""


class StaleMemoryError(HayrecallError):
    """The memory to edit is not, or no longer, the version that the caller read."""


class ConfigurationError(HayrecallError):
    """Settings, manifest or pipeline files are wrong; the message names file, line and what to change."""

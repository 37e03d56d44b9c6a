"""Everything that differs between machines, from the environment (prefix `HAYRECALL_`) or a `.env` file."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from contracts.errors import ConfigurationError
from contracts.turn import Locale


class Settings(BaseSettings):
    """Settings of every command; units stand in the names."""

    model_config = SettingsConfigDict(
        env_prefix="HAYRECALL_", env_file=".env", extra="ignore", env_ignore_empty=True, frozen=True
    )

    llm_base_url: str | None = Field(None, description="OpenAI-compatible chat endpoint, with /v1")
    llm_api_key: SecretStr | None = Field(None, description="Key for it, if it needs one")
    llm_timeout_seconds: float = Field(60, gt=0, description="Longest wait for a model's next byte")
    answer_model: str = Field("local", description="Model that writes the answers")
    task_model: str | None = Field(None, description="Model for condensing, guards and titles; default: answer model")
    memory_model: str | None = Field(None, description="Model that extracts memories; default: answer model")
    model_window_tokens: int | None = Field(None, gt=0, description="Narrowest context window of the models")
    embedding_base_url: str | None = Field(None, description="OpenAI-compatible embedding endpoint, with /v1")
    embedding_api_key: SecretStr | None = Field(None, description="Key for it, if it needs one")
    embedding_model: str = Field("multilingual-e5-small", description="Embedding model")
    embedding_dimension: int = Field(384, gt=0, le=65_536, description="Length of its vectors")
    embedding_window_tokens: int = Field(8192, gt=0, description="Longest text that it takes, in tokens")
    qdrant_url: str | None = Field(None, description="Qdrant's REST address")
    qdrant_api_key: SecretStr | None = Field(None, description="Key for it, if it needs one")
    nats_url: str | None = Field(None, description="NATS address; several separated by commas")
    nats_replicas: int = Field(1, ge=1, le=5, description="Replicas of streams and buckets; 3 in a three-node cluster")
    data_dir: Path = Field(Path(".hayrecall"), description="Folder for all that is kept on this machine")
    host: str = Field("127.0.0.1", description="Address to listen on")
    port: int = Field(1416, ge=0, le=65535, description="Port to listen on; 0 = any free one")
    api_keys_file: Path | None = Field(None, description="File of hashed API keys; default: DATA_DIR/api_keys.json")
    openwebui_jwt_secret: SecretStr | None = Field(None, description="Secret that Open WebUI signs user tokens with")
    link_secret: SecretStr | None = Field(None, description="Secret that signs links; default: made once in DATA_DIR")
    public_url: str | None = Field(None, description="Address under which people reach this server")
    experts: list[str] = Field(default_factory=list, description="Names of those who answer, as a JSON list")
    expert_webhook_kind: Literal["slack", "teams", "signed"] = Field(
        "signed", description="Kind of the experts' webhook"
    )
    expert_webhook_url: SecretStr | None = Field(None, description="Webhook that tells the experts of a question")
    expert_webhook_secret: SecretStr | None = Field(None, description="Key that signs what a `signed` webhook gets")
    max_input_tokens: int = Field(128_000, gt=0, description="Ceiling on the tokens of one model input")
    max_body_bytes: int = Field(20 * 1024 * 1024, gt=0, description="Largest request body; larger: 413")
    rate_limit_per_minute: int | None = Field(None, gt=0, description="Requests per key and minute; unset: no limit")
    default_locale: Locale = Field("de", description="Language where none can be told: de, fr, it, en")
    manifest: Path = Field(Path("pipelines.yaml"), description="The manifest of served pipelines")
    dead_letter_webhook: str | None = Field(None, description="URL that is told of each new dead letter")
    writer_concurrency: int = Field(16, gt=0, le=64, description="Turns that one writer handles at a time")
    writer_port: int | None = Field(
        None, ge=0, le=65535, description="Port for the writer's health and metrics; 0 = any free one; unset: none"
    )
    writer_max_attempts: int = Field(5, gt=0, description="Attempts at a turn that fails by its own fault")
    writer_retry_seconds: tuple[float, ...] = Field(
        (1, 5, 30, 60), min_length=1, description="Delays between attempts, as a JSON list; the last one repeats"
    )
    writer_ack_wait_seconds: float = Field(30, ge=1, description="Silence after which another writer gets the turn")
    writer_grace_seconds: float = Field(20, ge=0, description="Time for turns in progress to finish at a stop")
    ingest_concurrency: int = Field(2, gt=0, le=64, description="Files that one ingestion works on at a time")
    ingest_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port for an ingestion worker's health and metrics; 0 = any free one; unset: none",
    )
    content_tracing: bool = Field(False, description="Put user text into traces; off unless you know why")

    @model_validator(mode="after")
    def _some_default_to_others(self) -> Self:
        object.__setattr__(self, "task_model", self.task_model or self.answer_model)
        object.__setattr__(self, "memory_model", self.memory_model or self.answer_model)
        object.__setattr__(self, "public_url", self.public_url or self.address)
        object.__setattr__(self, "api_keys_file", self.api_keys_file or self.data_dir / "api_keys.json")
        return self

    @property
    def address(self) -> str:
        """Where the server listens, as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def listening_on(self, port: int) -> Self:
        """
        Give the settings of a server that has taken a port, which may be another than 0: links lead there.

        :param port: The port; a `public_url` that is set stays.
        """
        bound = self.model_copy(update={"port": port})
        if "public_url" not in self.model_fields_set:
            object.__setattr__(bound, "public_url", bound.address)
        return bound

    @classmethod
    def load(cls) -> Self:
        """
        Read the settings.

        :raises ConfigurationError: If a value is wrong; the message names the variable and what it takes.
        """
        try:
            return cls()
        except ValidationError as error:
            lines = [
                f"HAYRECALL_{'_'.join(str(part) for part in detail['loc']).upper()}: {detail['msg']}"
                for detail in error.errors(include_input=False)
            ]
            raise ConfigurationError("; ".join(lines)) from None

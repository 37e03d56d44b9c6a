"""What commands do before anything else: `.env` into the environment, settings out of it."""

import os

from dotenv import load_dotenv

from contracts.errors import ConfigurationError
from contracts.settings import Settings


def export_dotenv() -> None:
    """
    Put `.env` of the current folder into the environment, where pipelines look for keys; what is set already wins.

    Clients of the OpenAI API refuse to start without a key, also towards servers that need none.
    """
    load_dotenv(".env")
    for name in ("HAYRECALL_LLM_API_KEY", "HAYRECALL_EMBEDDING_API_KEY"):
        if not os.environ.get(name):
            os.environ[name] = "unused"


def load_served_settings(command: str) -> Settings:
    """
    Load the settings of a command that starts no parts of its own.

    :param command: Its name.
    :raises ConfigurationError: If a setting is wrong, or an address is missing.
    """
    export_dotenv()
    settings = Settings.load()
    missing = [name for name in ("nats_url", "qdrant_url") if getattr(settings, name) is None]
    if missing:
        variables = " and ".join(f"HAYRECALL_{name.upper()}" for name in missing)
        message = f"`hayrecall {command}` needs {variables}; `hayrecall up` starts everything on this machine"
        raise ConfigurationError(message)
    return settings

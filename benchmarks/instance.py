"""A running Hayrecall, as `hayrecall up` starts it, for benchmarks."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Instance:
    """An instance that answers."""

    url: str
    data_dir: Path
    pid: int

    @property
    def headers(self) -> dict[str, str]:
        """What shows the key that the instance made for itself."""
        return {"Authorization": f"Bearer {(self.data_dir / 'api_key').read_text().strip()}"}


@contextmanager
def running(models_url: str, **settings: str) -> Iterator[Instance]:
    """
    Run an instance with the given model server for chat and embeddings.

    :param models_url: Base address of an OpenAI-compatible server, with /v1.
    :param settings: Further settings, by lower-case name.
    """
    with tempfile.TemporaryDirectory(prefix="hayrecall-bench-") as folder:
        own = {
            "data_dir": folder,
            "port": "0",
            "llm_base_url": models_url,
            "embedding_base_url": models_url,
            "default_locale": "en",
        }
        env = {name: value for name, value in os.environ.items() if not name.startswith("HAYRECALL_")}
        env |= {f"HAYRECALL_{name.upper()}": value for name, value in (own | settings).items()}
        process = subprocess.Popen(
            [sys.executable, "-m", "hayrecall", "up"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("ready "):
                    yield Instance(line.split()[1], Path(folder), process.pid)
                    break
            else:
                raise SystemExit("hayrecall up did not get ready")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

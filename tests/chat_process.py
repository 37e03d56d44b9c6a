"""A chat server as a process that can be killed at any point and started again at the same address."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Self

from hayrecall.server.api_keys import add_key

_START_SECONDS = 90


class ChatProcess:
    """`hayrecall serve` on a data folder; everything that it needs runs elsewhere."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self.key = add_key(data_dir / "api_keys.json", trusted=True)
        self.log = data_dir / "chat.log"
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        own = {"data_dir": data_dir, "port": port, "default_locale": "en"}
        self._settings = {f"HAYRECALL_{name.upper()}": str(value) for name, value in (own | settings).items()}
        self._forks: asyncio.subprocess.Process | None = None
        self._pid = 0

    async def __aenter__(self) -> Self:
        with self.log.open("ab") as log:
            self._forks = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tests.forked_chat"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._forks is not None
        if self._pid:
            await self.kill()
        assert self._forks.stdin is not None
        self._forks.stdin.close()
        await self._forks.wait()

    async def start(self) -> None:
        """Start it; returns when it answers."""
        assert self._forks is not None
        assert self._forks.stdin is not None
        self._forks.stdin.write(json.dumps(self._settings).encode() + b"\n")
        self._pid = int(await self._next("pid"))
        await self._next("ready")

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """End it with SIGTERM and give its exit code."""
        return await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> int:
        os.kill(self._pid, number)
        code = int(await self._next("gone"))
        self._pid = 0
        return code

    async def _next(self, word: str) -> str:
        assert self._forks is not None
        assert self._forks.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            line = (await self._forks.stdout.readline()).decode().split()
        if line[:1] != [word]:
            raise AssertionError(f"expected {word}, got {line}: {self.log.read_text()[-3000:]}")
        return line[1]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])

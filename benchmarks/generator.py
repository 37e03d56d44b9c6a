"""What asking a model costs the event loop: Haystack's own generator against ours, for chats of several lengths."""

import asyncio
import statistics
import time
from typing import Any

from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

from benchmarks.report import arguments, show, write
from components.lean_chat_generator import LeanChatGenerator
from tests.scripted_model_server import ScriptedModelServer

LENGTHS = (16, 256, 2000)
CHAT = [ChatMessage.from_user("Hello"), ChatMessage.from_assistant("Hello")]


async def measure(url: str, calls: int) -> dict[str, Any]:
    """Ask by turns, and give the CPU time of this process for a call, in milliseconds; the model server is in it."""
    generators = [
        kind(model="m", api_key=Secret.from_token("unused"), api_base_url=url, max_retries=0)
        for kind in (OpenAIChatGenerator, LeanChatGenerator)
    ]
    figures = {}
    for length in LENGTHS:
        chat = CHAT * (length // 2)
        spent: tuple[list[float], list[float]] = ([], [])
        for _ in range(calls):
            for generator, times in zip(generators, spent, strict=True):
                started = time.process_time()
                await generator.run_async(chat)
                times.append(1000 * (time.process_time() - started))
        theirs, ours = (statistics.median(times[1:]) for times in spent)
        figures[f"{length} messages"] = {
            "haystack_ms": round(theirs, 2),
            "lean_ms": round(ours, 2),
            "ratio": round(theirs / ours, 1),
        }
    for generator in generators:
        await generator.close_async()
    return figures


def main() -> None:
    """Measure and report."""
    parser = arguments(__doc__)
    parser.add_argument("--calls", type=int, default=20, help="calls of each generator for each length")
    options = parser.parse_args()
    models = ScriptedModelServer().start()
    figures = asyncio.run(measure(models.url, options.calls))
    models.stop()
    show("CPU time of a call", figures)
    write(options.json, figures)


if __name__ == "__main__":
    main()

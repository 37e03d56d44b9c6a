"""A chat process that records intents, publishes some of them, and is killed: `python dying_chat.py URL DATA_DIR`."""

import asyncio
import sys

from components.turn_queue import TurnQueue
from contracts.payloads import ConversationTurn
from tests.integration.queue.conftest import context


async def main(url: str, data_dir: str) -> None:
    queue = TurnQueue(url, data_dir)
    await queue.open()
    for number in range(4):
        asked = context()
        await queue.record_intent(asked, f"Frage {number}?")
        if number % 2 == 0:
            await queue.publish(ConversationTurn.of(asked, f"Frage {number}?", "Gerne."))
    sys.stdout.write("recorded\n")
    sys.stdout.flush()
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

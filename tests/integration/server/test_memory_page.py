"""The memory page as a browser without scripts uses it."""

import re
import uuid
from html import unescape
from html.parser import HTMLParser

import httpx
import pytest

from components.memory_store import Scope
from components.signed_links import SignedLinks, link_secret
from hayrecall.server.memory_page.rendering import texts
from tests.integration.server.test_memory_api import NOW, record, remember

__all__ = ["remember"]
pytestmark = pytest.mark.integration


class Form(HTMLParser):
    """The fields of the forms of a page, by where they are sent."""

    def __init__(self, html):
        super().__init__()
        self.forms: dict[str, dict[str, str]] = {}
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "form":
            self.forms[values["action"]] = self._fields = {}
        elif tag == "input" and values.get("name"):
            self._fields[values["name"]] = values.get("value") or ""


@pytest.fixture
def ann(served):
    """A user, and her browser with the page open."""
    name = f"ann-{uuid.uuid4()}"
    link = served.client(name).get("/v1/memories/link", params={"locale": "en"}).json()["url"]
    with httpx.Client(base_url=served.url, follow_redirects=True) as browser:
        page = browser.get(link)
        assert page.status_code == 200
        assert str(page.url) == f"{served.url}/memories"
        yield browser, Scope("acme", user_id=name), name


def send(browser, page, action, **changed):
    return browser.post(action, data=Form(page.text).forms[action] | changed)


def test_a_person_finds_a_memory_corrects_it_and_deletes_it(ann, remember):
    browser, scope, _ = ann
    old, new, other = record("lives in Bern"), record("lives in <b>Basel</b>", 1), record("plays the tuba")
    remember(scope, old, other)
    remember(scope, new, superseded=[(old.id, new.id, NOW)])

    found = browser.get("/memories", params={"q": "lives in basel"})
    assert "lives in &lt;b&gt;Basel&lt;/b&gt;" in found.text
    assert "tuba" not in found.text or found.text.index("Basel") < found.text.index("tuba")

    shown = browser.get(f"/memories/{new.id}")
    assert "lives in Bern" in shown.text
    assert "Told: lives in &lt;b&gt;" in shown.text

    saved = send(browser, shown, f"/memories/{new.id}/edit", text="lives in Geneva")
    assert "Saved." in saved.text
    assert "lives in Geneva" in saved.text

    deleted = send(browser, saved, f"/memories/{new.id}/delete")
    assert "Deleted." in deleted.text
    assert "Geneva" not in deleted.text
    assert "tuba" in deleted.text


def test_an_edit_of_an_old_version_shows_the_new_one_and_keeps_what_was_written(ann, remember):
    browser, scope, _ = ann
    (memory,) = remember(scope, record("has two cats"))
    before = browser.get(f"/memories/{memory}")
    send(browser, before, f"/memories/{memory}/edit", text="has three cats")

    late = send(browser, before, f"/memories/{memory}/edit", text="has a dog")

    assert late.status_code == 412
    assert "was changed meanwhile" in late.text
    assert "has three cats" in late.text
    assert "has a dog" in late.text


@pytest.mark.parametrize(("text", "status", "notice"), [(" ", 400, "Please write"), ("w " * 9000, 422, "too long")])
def test_a_text_that_cannot_be_kept_is_said_so(ann, remember, text, status, notice):
    browser, scope, _ = ann
    (memory,) = remember(scope, record("has two cats"))

    answer = send(browser, browser.get(f"/memories/{memory}"), f"/memories/{memory}/edit", text=text)

    assert answer.status_code == status
    assert notice in answer.text


def test_learning_is_switched_and_everything_taken_away_and_erased(ann, served, remember):
    browser, scope, name = ann
    remember(scope, record("has two cats"))

    off = send(browser, browser.get("/memories"), "/memories/learning")
    assert "Nothing new is remembered" in off.text
    assert served.client(name).get("/v1/memories/settings").json() == {"learning": False}
    export = browser.get("/memories/export")
    assert [memory["text"] for memory in export.json()["data"]] == ["has two cats"]

    erased = send(browser, off, "/memories/erase")
    assert "Everything is deleted." in erased.text
    assert served.client(name).get("/v1/memories").json()["data"] == []


def test_older_memories_are_on_the_next_page(ann, remember):
    browser, scope, _ = ann
    remember(scope, *(record(f"fact number {n}", n) for n in range(60)))

    first = browser.get("/memories")
    following = re.search(r'href="(/memories\?cursor=[^"]+)"', first.text)
    assert following
    second = browser.get(following[1])

    assert "fact number 59" in first.text
    assert "fact number 9<" in second.text
    assert browser.get("/memories?cursor=nonsense").status_code == 200


@pytest.mark.parametrize("path", ["/memories", "/memories/export", "/memories/3f5183df-4ca0-4627-846c-6fb60e9e3e8d"])
def test_without_a_link_there_is_only_a_hint(served, path):
    answer = httpx.get(served.url + path, headers={"Accept-Language": "it"})

    assert answer.status_code == 401
    assert texts()["it"]["no_session"] in unescape(answer.text)


@pytest.mark.parametrize("purpose", ["memory-session", "expert-answer"])
def test_a_link_opens_only_what_it_is_for_and_only_for_a_while(served, purpose):
    links = SignedLinks(link_secret(None, served.settings.data_dir))
    claims = {"tenant": "acme", "user": "ann", "locale": "en", "form_key": "x"}
    for token in (
        links.sign(purpose, claims, seconds=60),
        links.sign("memory-page", claims, seconds=-1),
        SignedLinks("another secret that is long enough").sign("memory-page", claims, seconds=60),
    ):
        assert httpx.get(f"{served.url}/memories", params={"token": token}).status_code == 401


def test_a_link_is_for_a_named_user_only(served):
    assert served.client().get("/v1/memories/link").status_code == 401


def test_a_form_of_another_site_changes_nothing(ann, remember):
    browser, scope, _ = ann
    (memory,) = remember(scope, record("has two cats"))
    for path in ("/memories/erase", "/memories/learning", f"/memories/{memory}/delete", f"/memories/{memory}/edit"):
        for data in ({}, {"form_key": "guessed", "text": "x", "learning": "off"}):
            assert browser.post(path, data=data).status_code == 403
    assert "has two cats" in browser.get("/memories").text


def test_the_memory_of_another_is_not_there(ann, remember):
    browser, scope, _ = ann
    mine, theirs = record("has two cats"), record("collects stamps")
    remember(scope, mine)
    remember(Scope("acme", user_id="somebody else"), theirs)
    shown = browser.get(f"/memories/{mine.id}")
    fields = Form(shown.text).forms[f"/memories/{mine.id}/edit"]

    assert browser.get(f"/memories/{theirs.id}").status_code == 404
    assert browser.post(f"/memories/{theirs.id}/edit", data=fields | {"text": "x"}).status_code == 404
    assert browser.post(f"/memories/{theirs.id}/delete", data=fields).status_code == 404


def test_the_page_runs_nothing_and_its_cookie_is_out_of_reach(served):
    link = served.client("ann").get("/v1/memories/link").json()["url"]

    cookie = httpx.get(link).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/memories" in cookie
    page = httpx.get(served.url + "/memories")
    assert "<script" not in page.text
    assert re.search(r"default-src 'none'; style-src 'nonce-[\w-]+'", page.headers["content-security-policy"])


def test_every_language_has_the_same_texts():
    assert {locale: words.keys() for locale, words in texts().items()} == dict.fromkeys(
        ("en", "de", "fr", "it"), texts()["en"].keys()
    )


@pytest.mark.parametrize("locale", ["de", "fr", "it", "en"])
@pytest.mark.parametrize("form", ["file", "multipart", "many"])
def test_a_form_that_cannot_be_read_is_answered_with_a_page(served, form, locale):
    link = served.client("bea").get("/v1/memories/link", params={"locale": locale}).json()["url"]
    with httpx.Client(base_url=served.url, follow_redirects=True) as browser:
        browser.get(link)
        answer = browser.post("/memories/learning", **BAD_FORMS[form])

    assert answer.status_code == 400
    assert answer.headers["Content-Type"].startswith("text/html")
    assert texts()[locale]["bad_form"] in unescape(answer.text)


BAD_FORMS = {
    "file": {"files": {"form_key": ("a.txt", b"a file")}},
    "multipart": {"content": b"--x\r\nnonsense", "headers": {"Content-Type": "multipart/form-data"}},
    "many": {"files": {f"f{number}": b"a" for number in range(1001)}},
}

"""Turn data into HTML: every value is escaped, and nothing runs in the browser."""

import secrets
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from contracts.turn import Locale

_FOLDER = Path(__file__).parent


@cache
def _templates() -> Environment:
    environment = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined)
    environment.filters["day"] = _day
    return environment


@cache
def texts() -> dict[Locale, dict[str, str]]:
    """Give the page's texts by language."""
    loaded: dict[Locale, dict[str, str]] = yaml.safe_load((_FOLDER / "texts.yaml").read_text(encoding="utf-8"))
    return loaded


def page(name: str, locale: Locale, *, status_code: int = 200, notice: str = "", **values: Any) -> HTMLResponse:
    """
    Render a page.

    :param name: Of the template, without its endings.
    :param locale: Language.
    :param notice: Name of a text to show on top.
    :param values: What the template shows.
    """
    nonce = secrets.token_urlsafe(16)
    words = texts()[locale]
    template = _templates().get_template(f"{name}.html.jinja")
    html = template.render(locale=locale, words=words, notice=words.get(notice, ""), nonce=nonce, **values)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(html, status_code, {"Content-Security-Policy": policy})


def _day(at: datetime) -> str:
    return at.strftime("%Y-%m-%d")

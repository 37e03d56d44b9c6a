"""Questions to the experts: their state for the one who asked, and the ways in which an expert answers."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse
from haystack import logging
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel

from components.expert_answer_intake import ExpertAnswerIntake, NotTakenError, public
from components.expert_channel import LINK_PURPOSE
from components.pipeline_file import LoadedPipeline
from contracts.errors import TransientError
from contracts.expert_questions import ExpertQuestion
from contracts.turn import Locale
from hayrecall.server.client_hints import client_locale
from hayrecall.server.errors import ApiError
from hayrecall.server.page_route import BAD_FORM, page_route
from hayrecall.server.request_context import current_request
from hayrecall.server.services import Services
from hayrecall.server.text import cleaned

logger = logging.getLogger(__name__)

_PAGE = Path(__file__).parent / "question_page"
_REMEMBER_EVERY_SECONDS = 60
_REFUSALS = {
    "empty": (400, "empty_message", "The answer is blank."),
    "too_long": (413, "answer_too_long", "The answer is too long."),
    "missing": (404, "not_found", "There is no such question."),
    "not_named": (403, "not_an_expert", "Only the experts that were asked may answer this question."),
    "answered": (409, "already_answered", "The question is answered already."),
    "declined": (409, "question_declined", "The question was withdrawn."),
    "expired": (410, "question_expired", "The deadline of the question has passed."),
    "open": (409, "conflict", "Others are answering right now; look at the question and try again."),
}


class _Answer(BaseModel):
    text: str


class ExpertDesk:
    """Opens what takes in answers, and makes up for what failed while an answer came in."""

    def __init__(self, loaded: LoadedPipeline, services: Services) -> None:
        """
        Keep the pipeline.

        :param loaded: The pipeline that the manifest marks `run_by: experts`.
        :param services: For links and identities.
        :raises StopIteration: If the pipeline holds no ExpertAnswerIntake.
        """
        self.loaded = loaded
        self.services = services
        components = (loaded.pipeline.get_component(name) for name in loaded.stages)
        self.intake = next(found for found in components if isinstance(found, ExpertAnswerIntake))

    async def open(self) -> None:
        """Connect."""
        await self.loaded.pipeline.warm_up_async()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep it open, and keep at what is not in the organization's memory yet."""
        rest = asyncio.create_task(self._remember_rest(), name="expert-answers-rest")
        try:
            yield
        finally:
            rest.cancel()
            await asyncio.gather(rest, return_exceptions=True)
            await self.loaded.pipeline.close_async()

    async def _remember_rest(self) -> None:
        while True:
            try:
                await self.intake.remember_rest()
            except TransientError as error:
                logger.warning("expert answers wait for the organization's memory: {reason}", reason=str(error))
            await asyncio.sleep(_REMEMBER_EVERY_SECONDS)

    async def take(self, tenant_id: str, question_id: str, expert: str, text: str) -> dict[str, Any]:
        """
        Take in a reply.

        :returns: `status` and `follow_up`.
        :raises NotTakenError: If it was not taken.
        """
        values = {"tenant_id": tenant_id, "question_id": question_id, "expert": expert, "text": cleaned(text)}
        result = await self.loaded.pipeline.run_async(self.loaded.run_data(**values), self.loaded.reported)
        return {name: self.loaded.output(result, name) for name in ("status", "follow_up")}

    async def find(self, tenant_id: str, question_id: str) -> ExpertQuestion | None:
        """Give a question that went to the experts."""
        kept = await self.intake.desk.find(tenant_id, question_id)
        return kept.question if kept is not None and kept.question.state != "consent" else None


def question_router(desk: ExpertDesk) -> APIRouter:
    """
    Build the routes.

    :param desk: What answers them.
    """
    router = APIRouter(tags=["experts"])
    templates = Environment(loader=FileSystemLoader(_PAGE), autoescape=True, undefined=StrictUndefined)
    template = templates.get_template("page.html.jinja")
    texts: dict[Locale, dict[str, str]] = yaml.safe_load((_PAGE / "texts.yaml").read_text(encoding="utf-8"))

    @router.get("/v1/questions/{question_id}")
    async def show(question_id: str) -> dict[str, Any]:
        """Tell the state of a question, and its answer, to the one who asked, to experts and to admins."""
        request = current_request()
        who = desk.services.identities.identify(request.key, request.headers)
        question = await desk.find(who.tenant_id, question_id)
        if question is None or (who.role == "user" and who.user_id != question.user_id):
            raise ApiError(*_REFUSALS["missing"])
        return public(question)

    @router.post("/v1/questions/{question_id}/answers")
    async def answer(question_id: str, body: _Answer) -> dict[str, Any]:
        """Take in an expert's answer; the name of the key is the expert's."""
        key = current_request().key
        desk.services.identities.identify(key, current_request().headers).require("expert")
        try:
            taken = await desk.take(key.tenant, question_id, key.name, body.text)
        except NotTakenError as refusal:
            raise ApiError(*_REFUSALS[refusal.status]) from None
        return {"id": question_id, "object": "question", **taken}

    def page(status_code: int, locale: Locale, notice: str, **values: Any) -> HTMLResponse:
        nonce = secrets.token_urlsafe(16)
        shown = {"question": None, "open": False, "expert": "", "draft": ""} | values
        html = template.render(
            locale=locale,
            texts=texts[locale],
            notice=texts[locale].get(notice, ""),
            nonce=nonce,
            longest=desk.intake.max_answer_characters,
            **shown,
        )
        policy = f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; frame-ancestors 'none'"
        return HTMLResponse(html, status_code, {"Content-Security-Policy": policy})

    def failure(request: Request, status_code: int) -> HTMLResponse:
        notice = "bad_form" if status_code == BAD_FORM else "unavailable"
        return page(status_code, client_locale(request.headers) or desk.services.settings.default_locale, notice)

    pages = APIRouter(tags=["experts"], route_class=page_route(failure))

    async def opened(token: str) -> tuple[ExpertQuestion | None, dict[str, Any] | None]:
        claims = desk.services.links.read(LINK_PURPOSE, token)
        return (await desk.find(claims["tenant"], claims["question"]) if claims else None), claims

    def standing(question: ExpertQuestion, notice: str, expert: str, status_code: int, draft: str = "") -> HTMLResponse:
        is_open = question.status(datetime.now(UTC)) == "open"
        values = {"question": question, "open": is_open, "expert": expert, "draft": draft}
        return page(status_code, question.locale, notice, **values)

    @pages.get("/questions/answer", response_class=HTMLResponse)
    async def ask_for_answer(token: str = "") -> HTMLResponse:
        """Show an expert the question of a signed link, with a form to answer it."""
        question, claims = await opened(token)
        default = desk.services.settings.default_locale
        if claims is None:
            return page(403, default, "forbidden")
        if question is None:
            return page(404, default, "missing")
        status = question.status(datetime.now(UTC))
        return standing(question, "" if status == "open" else status, claims["expert"], 200)

    @pages.post("/questions/answer", response_class=HTMLResponse)
    async def take_answer(token: str = "", text: str = Form("")) -> HTMLResponse:
        """Take in the answer that an expert wrote on the page of a signed link."""
        question, claims = await opened(token)
        if claims is None or question is None:
            return await ask_for_answer(token)
        expert = claims["expert"]
        try:
            taken = await desk.take(question.tenant_id, str(question.id), expert, text)
        except NotTakenError as refusal:
            code = _REFUSALS[refusal.status][0]
            return standing(await _now(desk, question), refusal.status, expert, code, draft=text)
        return standing(await _now(desk, question), taken["status"], expert, 200)

    router.include_router(pages)
    return router


async def _now(desk: ExpertDesk, question: ExpertQuestion) -> ExpertQuestion:
    return await desk.find(question.tenant_id, str(question.id)) or question

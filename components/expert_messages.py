"""What the experts' channel is sent, in the form that each kind of channel takes."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ChannelKind = Literal["slack", "teams", "signed"]


@dataclass(frozen=True, kw_only=True)
class ExpertNotice:
    """
    A question for the experts.

    `links` gives, for each named expert, the link to their own answer page; `follow_up` what is still missing after an
    earlier reply.
    """

    question_id: str
    title: str
    question: str
    follow_up: str
    deadline: str
    links: Mapping[str, str]


def slack_message(notice: ExpertNotice) -> dict[str, Any]:
    """Give the body for a Slack incoming webhook: blocks, with the plain text that notifications show."""
    lines = [notice.question, *([notice.follow_up] if notice.follow_up else [])]
    sections = [{"type": "section", "text": {"type": "plain_text", "text": line[:3000]}} for line in lines]
    buttons = [
        {"type": "button", "text": {"type": "plain_text", "text": expert[:75]}, "url": link}
        for expert, link in notice.links.items()
    ]
    return {
        "text": f"{notice.title}: {notice.question}"[:3000],
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": notice.title[:150]}},
            *sections,
            *({"type": "actions", "elements": buttons[start : start + 25]} for start in range(0, len(buttons), 25)),
            {"type": "context", "elements": [{"type": "plain_text", "text": notice.deadline}]},
        ],
    }


def teams_message(notice: ExpertNotice) -> dict[str, Any]:
    """Give the body for a Teams webhook (Workflows): a message with one adaptive card."""
    lines = [notice.question, *([notice.follow_up] if notice.follow_up else []), notice.deadline]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": notice.title, "weight": "Bolder", "size": "Medium", "wrap": True},
            # Runs, not TextBlocks: those would render Markdown that a user wrote into the question.
            *({"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": line}]} for line in lines),
        ],
        "actions": [{"type": "Action.OpenUrl", "title": expert, "url": link} for expert, link in notice.links.items()],
    }
    content_type = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": content_type, "contentUrl": None, "content": card}]}


def plain_message(notice: ExpertNotice) -> dict[str, Any]:
    """Give the body for a webhook of one's own."""
    return {
        "id": notice.question_id,
        "title": notice.title,
        "question": notice.question,
        "follow_up": notice.follow_up,
        "deadline": notice.deadline,
        "links": dict(notice.links),
    }


def encode(kind: ChannelKind, notice: ExpertNotice, secret: str) -> tuple[bytes, dict[str, str]]:
    """
    Give body and headers of the request to a channel.

    A signed webhook gets `X-Hayrecall-Signature: t=<unix seconds>,v1=<hex>`: HMAC-SHA-256 of `<t>.<body>`.

    :param kind: Kind of the channel.
    :param notice: What to tell.
    :param secret: Key of the signature; used for `signed` only.
    """
    shapes = {"slack": slack_message, "teams": teams_message, "signed": plain_message}
    body = json.dumps(shapes[kind](notice), ensure_ascii=False).encode("utf-8", "replace")
    headers = {"Content-Type": "application/json"}
    if kind == "signed":
        stamp = str(int(time.time()))
        digest = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        headers["X-Hayrecall-Signature"] = f"t={stamp},v1={digest}"
    return body, headers

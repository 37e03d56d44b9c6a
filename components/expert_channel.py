"""The way to the experts: a webhook of Slack, Teams or one's own, and the links to their answer pages."""

from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx
from haystack.core.serialization import default_from_dict, default_to_dict
from haystack.utils import Secret

from components.expert_messages import ChannelKind, ExpertNotice, encode
from components.locale_prompt import LocalePrompt
from components.signed_links import SignedLinks, link_secret
from components.tls import shared_tls_context
from contracts.errors import ConfigurationError, QueueUnavailableError
from contracts.expert_questions import ExpertQuestion

LINK_PURPOSE = "expert-answer"


class ExpertChannel:
    """
    Tells the experts of a question: the condensed question, the deadline, and a signed link for each named expert.

    ### Usage example

    ```python
    from components.expert_channel import ExpertChannel

    channel = ExpertChannel(kind="slack", experts=["Ann"], prompt_dir="pipelines/expert-rag/prompts/channel")
    assert not channel.is_configured  # no webhook: nobody could be asked
    ```
    """

    def __init__(
        self,
        *,
        experts: list[str],
        prompt_dir: str,
        kind: ChannelKind = "signed",
        webhook_url: Secret | None = None,
        webhook_secret: Secret | None = None,
        configured_link_secret: Secret | None = None,
        public_url: str | None = None,
        data_dir: str = ".hayrecall",
        timeout_seconds: float = 5.0,
    ) -> None:
        """
        Configure the channel; nothing is opened here.

        :param experts: Names of those who may answer.
        :param prompt_dir: Texts of the message: one template a locale that gives title and deadline, a line each.
        :param kind: `slack` or `teams` (incoming webhooks), or `signed`: JSON with a signature.
        :param webhook_url: Where to post; without one, nobody can be asked.
        :param webhook_secret: Key of the signature; needed for `signed`.
        :param configured_link_secret: Secret that signs links; default: made once in `data_dir`.
        :param public_url: Address under which the experts reach this server.
        :param data_dir: Folder for what is kept on this machine.
        :param timeout_seconds: Longest wait for the channel, above 0.
        :raises ValueError: If a setting is out of range.
        :raises ConfigurationError: If the prompt is not whole.
        """
        if kind not in ("slack", "teams", "signed") or timeout_seconds <= 0:
            msg = f"need kind slack, teams or signed and timeout_seconds > 0, got {kind=} and {timeout_seconds=}"
            raise ValueError(msg)
        self.experts = experts
        self.prompt_dir = prompt_dir
        self.kind = kind
        self.webhook_url = webhook_url
        self.webhook_secret = webhook_secret
        self.configured_link_secret = configured_link_secret
        self.public_url = public_url
        self.data_dir = data_dir
        self.timeout_seconds = timeout_seconds
        self._prompt = LocalePrompt(prompt_dir)
        if self.is_configured and kind == "signed" and not _value(webhook_secret):
            msg = "a signed webhook needs a secret; set HAYRECALL_EXPERT_WEBHOOK_SECRET"
            raise ConfigurationError(msg)
        if self.is_configured and not experts:
            msg = "an experts' webhook is set, but no experts; name them in HAYRECALL_EXPERTS"
            raise ConfigurationError(msg)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the settings."""
        return default_to_dict(
            self,
            experts=self.experts,
            prompt_dir=self.prompt_dir,
            kind=self.kind,
            webhook_url=self.webhook_url,
            webhook_secret=self.webhook_secret,
            configured_link_secret=self.configured_link_secret,
            public_url=self.public_url,
            data_dir=self.data_dir,
            timeout_seconds=self.timeout_seconds,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build from what `to_dict` gave."""
        return default_from_dict(cls, data)

    @property
    def is_configured(self) -> bool:
        """Whether there is a webhook to post to."""
        return bool(_value(self.webhook_url))

    async def send(self, question: ExpertQuestion, *, seconds_left: float) -> None:
        """
        Tell the experts of a question, or of what is still missing after a reply.

        :param question: An open question.
        :param seconds_left: How long the links are valid.
        :raises QueueUnavailableError: If the channel did not take it.
        """
        links = SignedLinks(link_secret(_value(self.configured_link_secret), Path(self.data_dir)))
        base = (self.public_url or "").rstrip("/")
        pages = {}
        for expert in question.experts:
            claims = {"tenant": question.tenant_id, "question": str(question.id), "expert": expert}
            pages[expert] = (
                f"{base}/questions/answer?token={quote(links.sign(LINK_PURPOSE, claims, seconds=seconds_left))}"
            )
        deadline = f"{question.deadline:%Y-%m-%d %H:%M %Z}"
        title, until = self._prompt.text(question.locale, agent=question.agent.name, deadline=deadline).splitlines()
        notice = ExpertNotice(
            question_id=str(question.id),
            title=title,
            question=question.question,
            follow_up=question.replies[-1].follow_up if question.replies else "",
            deadline=until,
            links=pages,
        )
        body, headers = encode(self.kind, notice, _value(self.webhook_secret) or "")
        try:
            async with httpx.AsyncClient(verify=shared_tls_context(), timeout=self.timeout_seconds) as client:
                answer = await client.post(_value(self.webhook_url) or "", content=body, headers=headers)
            answer.raise_for_status()
        except httpx.HTTPStatusError as error:
            msg = f"the experts' webhook answered {error.response.status_code}; check HAYRECALL_EXPERT_WEBHOOK_URL"
            raise QueueUnavailableError(msg) from None
        except (httpx.HTTPError, httpx.InvalidURL):
            msg = "the experts' webhook does not answer; check HAYRECALL_EXPERT_WEBHOOK_URL"
            raise QueueUnavailableError(msg) from None


def _value(secret: Secret | None) -> str | None:
    return secret.resolve_value() if secret is not None else None

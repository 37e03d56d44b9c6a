"""A prompt in four languages, one file each."""

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from haystack.dataclasses import ChatMessage
from haystack.utils.jinja2_chat_extension import ChatMessageExtension
from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from contracts.errors import ConfigurationError
from contracts.turn import LOCALES, Locale

SUFFIX = ".jinja"
_ENVIRONMENT = ImmutableSandboxedEnvironment(
    extensions=[ChatMessageExtension], undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


@lru_cache(maxsize=256)  # served pipelines share most of their prompts, and compiling is what a start spends most on
def _compiled(source: str) -> tuple[Template, frozenset[str]]:
    """Compile a template, and find the variables that it uses."""
    template = _ENVIRONMENT.from_string(source)
    return template, frozenset(meta.find_undeclared_variables(_ENVIRONMENT.parse(source)))


class LocalePrompt:
    """
    Renders a prompt in the language of the turn.

    A folder holds `de.jinja`, `fr.jinja`, `it.jinja` and `en.jinja` with the same variables, written as Haystack's
    `ChatPromptBuilder` takes them: `{% message role="system" %}…{% endmessage %}` and `{% insert messages %}`, or plain
    text. Templates are sandboxed, and values are never rendered: `{{`, `{% message %}` and special tokens in them are
    plain text.

    ### Usage example

    ```python
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from components.locale_prompt import LocalePrompt

    with TemporaryDirectory() as folder:
        for locale in ("de", "fr", "it", "en"):
            Path(folder, f"{locale}.jinja").write_text('{% message role="user" %}{{ question }}{% endmessage %}')
        prompt = LocalePrompt(folder)

    assert prompt.messages("en", question="What is {{ 7 * 7 }}?")[0].text == "What is {{ 7 * 7 }}?"
    ```
    """

    def __init__(self, prompt_dir: str | Path, *, provides: Collection[str] | None = None) -> None:
        """
        Load and compile the four templates.

        :param prompt_dir: Folder of one prompt.
        :param provides: The variables that a template may use, all or some of them; None for any.
        :raises ConfigurationError: If a locale is missing, the folder holds something else, a template has an error or
            uses a variable that is not provided, or not by all four.
        """
        self.prompt_dir = Path(prompt_dir)
        self._sources = self._read()
        compiled = {locale: self._compile(locale, source) for locale, source in self._sources.items()}
        self._templates: dict[str, Template] = {locale: template for locale, (template, _) in compiled.items()}
        self.variables = self._common_variables({locale: used for locale, (_, used) in compiled.items()})
        if provides is not None and (unknown := sorted(self.variables - set(provides))):
            msg = f"{self.prompt_dir}: uses {', '.join(unknown)}; here a prompt may use {', '.join(sorted(provides))}"
            raise ConfigurationError(msg)

    @property
    def sources(self) -> dict[Locale, str]:
        """The templates' text by locale; its length bounds what a prompt adds to a model input."""
        return dict(self._sources)

    def text(self, locale: str, **values: Any) -> str:
        """
        Render a template of plain text.

        :param locale: Language.
        :param values: The variables of the template.
        :returns: The text, without blanks around it.
        """
        return self._templates[locale].render(values).strip()

    def messages(self, locale: str, **values: Any) -> list[ChatMessage]:
        """
        Render a template of `{% message %}` and `{% insert %}` tags.

        :param locale: Language.
        :param values: The variables of the template.
        :returns: The chat messages.
        """
        lines = self._templates[locale].render(values).splitlines()
        return [ChatMessage.from_dict(json.loads(line)) for line in lines if line.strip()]

    def _read(self) -> dict[Locale, str]:
        if not self.prompt_dir.is_dir():
            msg = f"{self.prompt_dir}: no such prompt folder"
            raise ConfigurationError(msg)
        found = {path.name for path in self.prompt_dir.iterdir() if not path.name.startswith(".")}
        wanted = {locale + SUFFIX for locale in LOCALES}
        if missing := sorted(wanted - found):
            msg = f"{self.prompt_dir}: {', '.join(missing)} missing; a prompt exists in every locale"
            raise ConfigurationError(msg)
        if extra := sorted(found - wanted):
            msg = f"{self.prompt_dir}: holds {', '.join(extra)} beside the four locales; remove it"
            raise ConfigurationError(msg)
        return {locale: self._path(locale).read_text(encoding="utf-8") for locale in LOCALES}

    def _compile(self, locale: Locale, source: str) -> tuple[Template, frozenset[str]]:
        try:
            return _compiled(source)
        except TemplateSyntaxError as error:
            msg = f"{self._path(locale)}:{error.lineno}: {error.message}"
            raise ConfigurationError(msg) from None
        except TemplateError as error:
            msg = f"{self._path(locale)}: {error.message}"
            raise ConfigurationError(msg) from None

    def _common_variables(self, used: Mapping[Locale, frozenset[str]]) -> frozenset[str]:
        first = used[LOCALES[0]]
        for locale in LOCALES[1:]:
            if different := sorted(first ^ used[locale]):
                msg = (
                    f"{self._path(locale)}: uses other variables than {LOCALES[0]}{SUFFIX} ({', '.join(different)}); "
                    "a prompt has the same variables in every locale"
                )
                raise ConfigurationError(msg)
        return first

    def _path(self, locale: Locale) -> Path:
        return self.prompt_dir / f"{locale}{SUFFIX}"

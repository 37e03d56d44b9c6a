"""What a user reads when the assistant does not answer: files by outcome and language."""

from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, get_args

from contracts.errors import ConfigurationError, Outcome
from contracts.turn import LOCALES

ANSWERING: frozenset[Outcome] = frozenset({"answered", "meta"})
REFUSALS: tuple[Outcome, ...] = tuple(outcome for outcome in get_args(Outcome) if outcome not in ANSWERING)

_FOLDER = Path(__file__).parent.parent / "pipelines" / "refusals"


class RefusalTexts:
    """
    Gives the text of a refusal in the user's language.

    ### Usage example

    ```python
    from components.refusal_texts import RefusalTexts

    texts = RefusalTexts()
    assert texts.text("expert_declined", "en").startswith("All right")
    assert "Who pays?" in texts.text("expert_consent", "de", question="Who pays?")
    ```
    """

    def __init__(self, folder: Path = _FOLDER) -> None:
        """
        Read all texts.

        :param folder: Holds `<outcome>/<locale>.txt` for every refusing outcome and each of the four locales.
        :raises ConfigurationError: If one is missing or blank, or its placeholders differ from the German text's.
        """
        self.folder = folder
        self._texts: dict[tuple[str, str], str] = {
            (outcome, locale): self._read(outcome, locale) for outcome in REFUSALS for locale in LOCALES
        }
        for outcome, locale in self._texts:
            if self.placeholders(outcome, locale) != self.placeholders(outcome, LOCALES[0]):
                msg = f"{folder / outcome / locale}.txt: has other placeholders than {LOCALES[0]}.txt"
                raise ConfigurationError(msg)

    def text(self, outcome: str, locale: str, **values: Any) -> str:
        """
        Give a text.

        :param outcome: A refusing outcome.
        :param locale: Language.
        :param values: Values of its placeholders; surplus ones are ignored, and they are never formatted themselves.
        :returns: The text.
        :raises KeyError: If outcome or locale is unknown, or a value is missing.
        """
        return self._texts[outcome, locale].format_map(values)

    def placeholders(self, outcome: str, locale: str) -> set[str]:
        """Give the names of the values that a text needs."""
        return {name for _, name, _, _ in Formatter().parse(self._texts[outcome, locale]) if name}

    def _read(self, outcome: str, locale: str) -> str:
        path = self.folder / outcome / f"{locale}.txt"
        text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
        if not text:
            msg = f"{path}: missing or blank; every refusal exists in every locale"
            raise ConfigurationError(msg)
        return text


@cache
def _shipped() -> RefusalTexts:
    return RefusalTexts()


def refusal_text(outcome: str, locale: str, **values: Any) -> str:
    """Give a text of the shipped folder; see `RefusalTexts.text`."""
    return _shipped().text(outcome, locale, **values)

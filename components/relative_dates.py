"""Say which day "tomorrow" is, in text that will be read later."""

import re
from datetime import datetime, timedelta

from contracts.turn import Locale

_DAYS: dict[Locale, dict[str, int]] = {
    "de": {"heute": 0, "morgen": 1, "gestern": -1, "übermorgen": 2, "vorgestern": -2},
    "fr": {"aujourd'hui": 0, "aujourd\u2019hui": 0, "demain": 1, "hier": -1, "après-demain": 2, "avant-hier": -2},
    "it": {"oggi": 0, "domani": 1, "ieri": -1, "dopodomani": 2},
    "en": {"today": 0, "tomorrow": 1, "yesterday": -1},
}
_FORMATS: dict[Locale, str] = {"de": "%d.%m.%Y", "fr": "%d.%m.%Y", "it": "%d.%m.%Y", "en": "%Y-%m-%d"}
# In German, "heute morgen" is this morning.
_PATTERNS = {
    locale: re.compile(rf"(?<![\w-])(?<!heute )(?<!gestern )(?:{'|'.join(words)})(?![\w-])", re.IGNORECASE)
    for locale, words in _DAYS.items()
}
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def with_dates(text: str, locale: Locale, said_at: datetime) -> str:
    """
    Put the date behind words such as "today" and "tomorrow", in a text that names no year itself.

    Models are asked to write dates; small ones forget it, and "has a birthday tomorrow" would be wrong a day later.

    :param text: A sentence.
    :param locale: Its language.
    :param said_at: When it was said, in the time zone of who said it.
    :returns: The sentence: "has a birthday tomorrow (2026-12-01)".
    """
    if _YEAR.search(text):
        return text

    def dated(match: re.Match[str]) -> str:
        word = match[0]
        if locale == "de" and word == "Morgen":  # the noun
            return word
        day = said_at + timedelta(days=_DAYS[locale][word.lower()])
        return f"{word} ({day.strftime(_FORMATS[locale])})"

    return _PATTERNS[locale].sub(dated, text)

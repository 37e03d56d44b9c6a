"""What was said about tomorrow is still right the day after."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from components.relative_dates import with_dates

SAID_AT = datetime(2026, 12, 31, 23, 30, tzinfo=ZoneInfo("Europe/Zurich"))


@pytest.mark.parametrize(
    ("locale", "text", "expected"),
    [
        ("de", "Die Person hat morgen Geburtstag.", "Die Person hat morgen (01.01.2027) Geburtstag."),
        ("de", "Heute war sie krank.", "Heute (31.12.2026) war sie krank."),
        ("de", "Übermorgen zieht Anna um.", "Übermorgen (02.01.2027) zieht Anna um."),
        ("de", "Die Person joggt am Morgen.", "Die Person joggt am Morgen."),
        ("de", "Die Person war heute morgen in Zug.", "Die Person war heute (31.12.2026) morgen in Zug."),
        (
            "de",
            "Die Person ist ab morgen, 1. Januar 2027, in Bern.",
            "Die Person ist ab morgen, 1. Januar 2027, in Bern.",
        ),
        ("fr", "La personne part après-demain.", "La personne part après-demain (02.01.2027)."),
        ("fr", "Elle est absente aujourd'hui.", "Elle est absente aujourd'hui (31.12.2026)."),
        ("fr", "Elle s'appelle Hiermann.", "Elle s'appelle Hiermann."),
        ("it", "La persona era malata ieri.", "La persona era malata ieri (30.12.2026)."),
        ("en", "The user moves tomorrow.", "The user moves tomorrow (2027-01-01)."),
        ("en", "The user is vegetarian.", "The user is vegetarian."),
    ],
)
def test_the_date_stands_behind_the_word(locale, text, expected):
    assert with_dates(text, locale, SAID_AT) == expected

"""Every refusal has a text in every language."""

import re
import shutil

import pytest

from components.language import detect_locale
from components.refusal_texts import REFUSALS, RefusalTexts, refusal_text
from contracts.errors import ConfigurationError, RefusalError
from contracts.turn import LOCALES

TEXTS = RefusalTexts()


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("outcome", REFUSALS)
def test_a_refusal_is_short_complete_and_in_its_language(outcome, locale):
    text = TEXTS.text(outcome, locale, question="")

    assert 20 < len(text) < 300
    assert detect_locale(text.removesuffix("\n\n> "), "en" if locale != "en" else "de") == locale
    assert not re.search(r"\{|\}|\d[',.]\d{3}", text)


def test_every_refusing_error_has_texts():
    def leaves(error: type) -> list[type]:
        return [leaf for child in error.__subclasses__() for leaf in (leaves(child) or [child])]

    assert {error.outcome for error in leaves(RefusalError)} <= set(REFUSALS)


def test_a_value_is_not_formatted_itself():
    assert "{locale.__class__}" in refusal_text("expert_consent", "en", question="{locale.__class__}", surplus=1)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(TEXTS.folder, tmp_path / "refusals")


def test_a_missing_text_is_named(folder):
    (folder / "expert_pending" / "it.txt").unlink()

    with pytest.raises(ConfigurationError, match=r"expert_pending/it\.txt: missing or blank"):
        RefusalTexts(folder)


def test_other_placeholders_in_one_language_are_named(folder):
    (folder / "expert_consent" / "fr.txt").write_text("Oui ? {reponse}")

    with pytest.raises(ConfigurationError, match=r"expert_consent/fr\.txt: has other placeholders"):
        RefusalTexts(folder)

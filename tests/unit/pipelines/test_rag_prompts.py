"""The shipped prompts are short, alike in every language, and in that language."""

import re
from pathlib import Path

import pytest

from components.language import detect_locale
from components.locale_prompt import LocalePrompt
from components.token_counter import TekkenTokenCounter
from contracts.turn import LOCALES

FOLDERS = sorted(path for path in Path("pipelines/rag/prompts").iterdir() if path.is_dir())
MARKUP = re.compile(r"{[{%].*?[%}]}|</?[a-z]+\b[^>]*>|\"(?:label|verdict|reason|query)\"")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_all_languages_have_the_same_markup(folder):
    markup = {locale: MARKUP.findall(source) for locale, source in LocalePrompt(folder).sources.items()}

    assert markup["de"] == markup["fr"] == markup["it"] == markup["en"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("locale", LOCALES)
def test_a_prompt_is_in_its_language(folder, locale):
    lines = MARKUP.sub(" ", LocalePrompt(folder).sources[locale]).splitlines()
    rules = [line for line in lines if len(line.split()) > 8 and not set("{}") & set(line)]

    assert rules
    for rule in rules:
        assert detect_locale(rule, "en" if locale != "en" else "de") == locale, rule


def test_the_prompts_are_short():
    counter = TekkenTokenCounter()
    sizes = {
        folder.name: max(counter.count_text(source) for source in LocalePrompt(folder).sources.values())
        for folder in FOLDERS
    }

    assert max(sizes.values()) < 720, sizes
    assert sizes["answer"] < 300, sizes

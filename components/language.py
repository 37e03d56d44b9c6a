"""Tell the language of a question, offline, also when it is three words long."""

import asyncio
import re
from functools import cache
from typing import cast

from lingua import Language, LanguageDetector, LanguageDetectorBuilder

from contracts.turn import LOCALES, Locale

_LANGUAGES = (Language.GERMAN, Language.FRENCH, Language.ITALIAN, Language.ENGLISH)

_TAIL_CHARACTERS = 300  # clients put the question after the documents that they paste
_SHORT_WORDS = 8  # up to here letter statistics err, and everyday words tell more
_CERTAIN = 0.6  # lingua's confidence below which a few words tell nothing

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE = re.compile(r"[{}<>=]|;\s*$|\w\(|https?://|\b\w+@\w+")
_WORD = re.compile(r"[^\W\d_]+")

# Everyday words of short questions. A word of two languages gives each of them half a vote.
_EVERYDAY: dict[Locale, str] = {
    "de": """
        aber als am auch auf aus bei bin bis bist bitte da danke das dass dein deine dem den der des dich die dies
        diese dir du ein eine einen einer eines er es finde für gab geht genau gibt gilt guten hallo hast hat heute
        hier ich ihr im ist ja jetzt kann kannst kein keine kostet können macht man mehr mein meine meinem meinen
        meiner mich mir mit morgen muss nach nein nicht noch nur oder ohne schon sehr sei sein seit sich sie sind so
        soll tag um und uns unser viel viele vom von vor wann war warum was welche welcher welches wenn wer werden wie
        wieder wird wo woher wohin zu zum zur über
    """,
    "fr": """
        ai as au aussi autre aux avec avez avons bonjour bonsoir ce cela ces cette chez combien comment dans de des
        dois donc du elle en encore es est et eux faire fait faut il ils jamais je jour la le les leur lui là ma mais
        me merci mes mon ne non nos notre nous on ont ou oui où par pas peut peux plaît plus pour pourquoi puis quand
        que quel quelle quelles quels qui quoi sa sans se ses si son sont suis sur ta te tes toi ton toujours tous
        tout trop très tu un une va vos votre voudrais vous y ça être
    """,
    "it": """
        a adesso ai al alla alle anche ancora buongiorno che chi ci ciao col come con cos cosa così da dal dalla dei
        del della delle devo di dopo dove e ed essere fa fare fino giorni gli grazie ha hai hanno ho i il in io la le
        lei lo loro lui ma me mi mia mie miei mio molto nei nel nella no noi non nostro o oggi ogni per perché più poi
        posso prego prima può qual quale quali quando quanta quante quanti quanto questa questo qui sei senza si sono
        sta su sua sul suo sì ti tra tu tua tuo tutti tutto un una uno vi voglio voi vorrei è
    """,
    "en": """
        a about am an and any are as at be because been but by can could day days did do does for from get give good
        had has have hello help her here hi his how i if in is it its just know long many may me more much must my
        need new next no not now of off on one only or other our out please shall she should so some tell thank thanks
        that the their them then there these they this to too up us want was we were what when where which who whom
        whose why will with without would year yes you your
    """,
}
_WORDS = {locale: frozenset(words.split()) for locale, words in _EVERYDAY.items()}


@cache
def _detector() -> LanguageDetector:
    return LanguageDetectorBuilder.from_languages(*_LANGUAGES).build()


async def load_languages() -> None:
    """Load the language models (2 s, 130 MB, once per process) without holding up the event loop."""
    if not _detector.cache_info().currsize:
        await asyncio.to_thread(lambda: _detector().detect_language_of("Guten Tag"))


def detect_locale(text: str, fallback: Locale) -> Locale:
    """
    Tell which of our languages a text is written in.

    Its end decides, because a client may have put documents before the question. Code and addresses are left out.

    :param text: A question, or a message that ends with one.
    :param fallback: Result where no language can be told: no letters, only code, a name, a word of several languages.
    :returns: The locale.
    """
    tail = _prose(text)
    words = [word.lower() for word in _WORD.findall(tail)]
    if not words:
        return fallback
    by_words = _vote(words)
    if len(words) <= _SHORT_WORDS and by_words:
        return by_words
    best = _detector().compute_language_confidence_values(tail)[0]
    if len(words) <= _SHORT_WORDS and best.value < _CERTAIN:
        return fallback
    return cast("Locale", best.language.iso_code_639_1.name.lower()) if best.value else fallback


def locale_of_turn(message: str, question: str, fallback: Locale) -> Locale:
    """
    Tell the language of the user's last question.

    :param message: The user's last message as it came. It decides while it is short; a long one holds documents.
    :param question: The condensed question; decides where the message does not.
    :param fallback: Result where neither tells.
    :returns: The locale of the answer and of refusals.
    """
    if len(message) <= 2 * _TAIL_CHARACTERS:
        return detect_locale(message, detect_locale(question, fallback))
    return detect_locale(question, detect_locale(message, fallback))


def _prose(text: str) -> str:
    """Give the last paragraph that is no code, at most its last 300 characters."""
    window = _FENCE.sub("\n\n", text[-20 * _TAIL_CHARACTERS :])
    for paragraph in reversed(re.split(r"\n\s*\n", window)):
        lines = [line for line in paragraph.splitlines() if not _CODE.search(line)]
        prose = "\n".join(lines).strip()[-_TAIL_CHARACTERS:]
        if _WORD.search(prose):
            return prose
    return ""


def _vote(words: list[str]) -> Locale | None:
    votes: dict[Locale, float] = dict.fromkeys(LOCALES, 0.0)
    for word in words:
        speakers = [locale for locale in LOCALES if word in _WORDS[locale]]
        for locale in speakers:
            votes[locale] += 1 / len(speakers)
    first, second = sorted(LOCALES, key=votes.__getitem__, reverse=True)[:2]
    return first if votes[first] > votes[second] else None

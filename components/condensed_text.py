"""Clean what the condenser's model said until only the question is left."""

import re

from components.model_output import without_reasoning

_FENCE = re.compile(r"\A```[^\n`]*\n?(.*?)\n?```\Z", re.DOTALL)
_LABEL = re.compile(
    r"\A(?:(?:standalone|condensed|eigenständige) )?(?:question|frage|domanda)(?: (?:autonome|autonoma))?\s?:\s+",
    re.IGNORECASE,
)
_QUOTES = frozenset({'""', "''", "``", "“”", "„“", "„”", "«»", "»«", "\u2018\u2019"})
_NOTHING = """
n/a|na|n.a|not applicable|none|nothing|null|nil|undefined|empty|blank|no question|nichts|leer|keine|keine frage|rien|
aucune|aucune question|vide|niente|nessuna|nessuna domanda|vuoto
"""
_PLACEHOLDERS = frozenset(_NOTHING.replace("\n", "").split("|"))
_EDGES = re.compile(r"\A\W+|\W+\Z")


def clean_question(text: str) -> str:
    """
    Take reasoning, fences, labels and surrounding quotes off a reply, and put it on one line.

    :param text: The condenser model's reply.
    :returns: The question; empty if nothing is left, or only punctuation or a word that stands for nothing.
    """
    question = without_reasoning(text.replace("\0", "").encode("utf-8", "replace").decode())
    before = None
    while question != before:
        before = question
        question = _unwrap(question.strip())
    question = " ".join(question.split())
    core = _EDGES.sub("", question).casefold()
    return "" if not core or core in _PLACEHOLDERS else question


def _unwrap(text: str) -> str:
    if fenced := _FENCE.match(text):
        return fenced[1]
    text = _LABEL.sub("", text)
    if len(text) > 1 and text[0] + text[-1] in _QUOTES and text[0] not in text[1:-1]:
        return text[1:-1]
    return text

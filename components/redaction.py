"""Take secrets and account numbers out of text before it is stored or shown to the model that extracts memories."""

import re
from collections.abc import Callable

from stdnum import iban, luhn

SECRET, IBAN, CARD = "[redacted secret]", "[redacted IBAN]", "[redacted card number]"

_GAP = "[ \u00a0\u202f-]?"  # account numbers are written in groups
_SECRETS = re.compile(
    r"""
      -----BEGIN[A-Z ]*PRIVATE\ KEY-----.*?(?:-----END[A-Z ]*PRIVATE\ KEY-----|\Z)
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*                                 # JSON Web Token
    | \b(?:sk|pk|rk)[-_](?=[\w-]*\d)[\w-]{16,}                          # OpenAI, Anthropic, Stripe
    | \b(?:gh[opsur]_|github_pat_|glpat-|hf_|npm_|pypi-|dckr_pat_|xox[abeoprs]-|xapp-)[\w-]{10,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[\w-]{30,} | \bSG\.[\w-]{16,}\.[\w-]{16,}
    | \bAGE-SECRET-KEY-1[A-Z0-9]{20,}
    """,
    re.VERBOSE | re.DOTALL,
)
# The secret is what stands behind these, in the group `value`.
_BEHIND = (
    re.compile(r"\b(?:bearer|basic)\s+(?P<value>[\w.~+/=-]{16,})", re.IGNORECASE),
    re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@]*:(?P<value>[^\s/@]+)@", re.IGNORECASE),
    re.compile(
        r"""\b(?:pass(?:word|phrase|code)|passwort|kennwort|pwd|mot\s+de\s+passe|parola\s+d['\u2019]ordine|parola\s+chiave)
        \b[^.:=?!\n]{0,40}?(?:\s*[:=]\s*|\s+(?:is|are|was|ist|lautet|war|est|è|era)\s+(?:now\s+|jetzt\s+|neu\s+)?)
        ["'„“«»`]?(?P<value>[^\s"'„“”«»`]{4,})""",
        re.IGNORECASE | re.VERBOSE,
    ),
    re.compile(
        r"""\b(?:api[\s_-]?(?:key|token)|api-?schlüssel|secret|token|access[\s_-]?key|clé\s+(?:d['\u2019])?api|chiave\s+api)
        \b[^.:=?!\n]{0,40}?(?:\s*[:=]\s*|\s+(?:is|ist|lautet|est|è)\s+)
        ["'„“«»`]?(?P<value>(?=[^\s"'`]*\d)(?=[^\s"'`]*[A-Za-z])[^\s"'„“”«»`]{8,})""",
        re.IGNORECASE | re.VERBOSE,
    ),
    re.compile(
        r"\b(?:pin|cvv|cvc|tan)(?:-?code)?\b(?:[^.:=?!\n\d]{0,30}?(?:[:=]|\b(?:is|ist|lautet|est|è)\b))?"
        r"\s*(?P<value>\d{3,8})\b",
        re.IGNORECASE,
    ),
)
# "My password is expired" tells no password.
_STATES = """
    abgelaufen gesperrt falsch vergessen unsicher sicher zurückgesetzt geändert nicht noch immer trop expired wrong
    locked forgotten weak strong reset changed lost required incorrect still always expiré bloqué faux oublié perdu
    changé encore toujours scaduta scaduto sbagliata bloccata dimenticata cambiata ancora sempre troppo
"""
_NO_PASSWORDS = frozenset(_STATES.split())
_IBAN_START = re.compile(r"\b[A-Z]{2}" + _GAP + r"\d{2}", re.IGNORECASE)
_IBAN_BODY = re.compile(f"(?:{_GAP}[A-Z0-9]){{1,40}}", re.IGNORECASE)
_DIGITS = re.compile(rf"(?<![\w.])\d(?:{_GAP}\d){{12,40}}")
_CARD_ISSUERS = re.compile(
    r"4\d{12}(?:\d{3})?(?:\d{3})?|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|6(?:011|4[4-9]\d|5\d\d)\d{12}|(?:5018|5020|5038|6304|6759)\d{12}"
)
_LONGEST_IBAN, _SHORTEST_IBAN = 34, 15
_LONGEST_CARD, _SHORTEST_CARD = 19, 13


def redact(text: str) -> str:
    """
    Replace secrets (keys, tokens, passwords, PINs), IBANs and card numbers by a note of what stood there.

    IBANs and card numbers are recognised by their check digits, so that order numbers and versions stay; secrets by
    their known shapes, and by words that announce one in German, French, Italian and English.

    :param text: Any text.
    :returns: The text; all else is unchanged.
    """
    text = _SECRETS.sub(SECRET, text)
    text = _numbers(text, _DIGITS, _card_end, CARD)
    text = _numbers(text, _IBAN_START, _iban_end, IBAN)
    for pattern in _BEHIND:
        text = pattern.sub(_hide_value, text)
    return text


def _hide_value(match: re.Match[str]) -> str:
    value = match["value"]
    if value.startswith("[redacted") or value.rstrip(".,;:!?").lower() in _NO_PASSWORDS:
        return match[0]
    start = match.start("value") - match.start()
    return match[0][:start] + SECRET + match[0][start + len(value.rstrip(".,;!?")) :]


def _numbers(text: str, starts: re.Pattern[str], end_of: Callable[[str, re.Match[str]], int | None], note: str) -> str:
    """Replace each number that begins where `starts` matches and for which `end_of` finds an end."""
    position, kept = 0, []
    while match := starts.search(text, position):
        end = end_of(text, match)
        kept.append(text[position : match.start()] + note if end else text[position : match.end()])
        position = end or match.end()
    return "".join(kept) + text[position:]


def _iban_end(text: str, start: re.Match[str]) -> int | None:
    body = _IBAN_BODY.match(text, start.end())
    if body is None:
        return None
    return _end(
        text,
        start.start(),
        body.end(),
        range(_LONGEST_IBAN, _SHORTEST_IBAN - 1, -1),
        lambda number: iban.is_valid(number, check_country=False),
    )


def _card_end(text: str, start: re.Match[str]) -> int | None:
    return _end(
        text,
        start.start(),
        start.end(),
        range(_LONGEST_CARD, _SHORTEST_CARD - 1, -1),
        lambda number: bool(_CARD_ISSUERS.fullmatch(number)) and luhn.is_valid(number),
    )


def _end(text: str, first: int, last: int, lengths: range, valid: Callable[[str], bool]) -> int | None:
    """Find where a valid number ends that begins at `first`: the groups behind it may belong to something else."""
    places = [place for place in range(first, last) if text[place].isalnum()]
    for length in lengths:
        if len(places) < length:
            continue
        end = places[length - 1] + 1
        if end < len(text) and text[end].isalnum():
            continue
        if valid("".join(text[place] for place in places[:length])):
            return end
    return None

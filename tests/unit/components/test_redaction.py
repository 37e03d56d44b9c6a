"""Secrets, IBANs and card numbers go, and nothing else."""

import pytest

from components.redaction import CARD, IBAN, SECRET, redact


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My IBAN is CH93 0076 2011 6238 5295 7, thanks", f"My IBAN is {IBAN}, thanks"),
        ("IBAN: DE89370400440532013000.", f"IBAN: {IBAN}."),
        ("pay to gb82-west-1234-5698-7654-32 and GB82WEST12345698765432", f"pay to {IBAN} and {IBAN}"),
        ("CH9300762011623852957 und FR14 2004 1010 0505 0001 3M02 606 heute", f"{IBAN} und {IBAN} heute"),
        ("card 4111 1111 1111 1111 12/27", f"card {CARD} 12/27"),
        ("Amex 378282246310005, MC 5555-5555-5555-4444", f"Amex {CARD}, MC {CARD}"),
        ("my password is hunter2.", f"my password is {SECRET}."),
        ("password: swordfish", f"password: {SECRET}"),
        ("Mein Passwort lautet Sommer2024!", f"Mein Passwort lautet {SECRET}!"),
        ("Mein neues WLAN-Passwort ist «geheim99»", f"Mein neues WLAN-Passwort ist «{SECRET}»"),
        ("Mon mot de passe est soleil42", f"Mon mot de passe est {SECRET}"),
        ("La mia password è girasole", f"La mia password è {SECRET}"),
        ("Meine PIN ist 4711", f"Meine PIN ist {SECRET}"),
        ("My PIN for the door is: 4711, CVV 123", f"My PIN for the door is: {SECRET}, CVV {SECRET}"),
        ("the key sk-proj-abcdEFGH1234ijklMNOP5678 works", f"the key {SECRET} works"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", SECRET),
        ("AKIAIOSFODNN7EXAMPLE is mine", f"{SECRET} is mine"),
        ("Authorization: Bearer abcdef0123456789abcdef", f"Authorization: Bearer {SECRET}"),
        ("postgres://ann:s3cret@db/prod", f"postgres://ann:{SECRET}@db/prod"),
        ("API_KEY=abc123def456", f"API_KEY={SECRET}"),
        ("x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl y", f"x {SECRET} y"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- ok", f"{SECRET} ok"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", SECRET),
    ],
)
def test_what_must_not_be_kept_is_replaced_by_a_note(text, expected):
    assert redact(text) == expected
    assert redact(expected) == expected


@pytest.mark.parametrize(
    "text",
    [
        "I work in Zug since 2019 and my badge is blue.",
        "Order 4111111111111112 and ticket 1234567890123 are late",  # no valid check digits
        "CH93 0076 2011 6238 5295 8 is a typo",
        "Mein Passwort ist abgelaufen.",
        "My password is not accepted",
        "We use Python 3.11.4 on 10.0.0.1 and DE10 cables",
        "Der Token-Ring ist alt, die API ist neu",
        "AHV 756.9217.0769.85",
        "Call me at +41 44 668 18 00",
        "Die Sitzung dauert von 08:00 bis 12:30 am 30.11.2026",
        "IMEI 356938035643809",
        "Die PIN gilt seit 2024",
        "sk-learn-compatible-estimators are fine",
        "",
    ],
)
def test_everything_else_stays_as_it_is(text):
    assert redact(text) == text

"""The language of a short question is told offline; what has none falls back."""

import pytest

from components.language import detect_locale, locale_of_turn

SHORT = {
    "de": """Wie viele Ferientage habe ich?|Was kostet das?|OK danke|Wer ist zuständig?|Und nächstes Jahr?|Hallo
        |Ja bitte|Wo finde ich das Formular?|Gilt das auch für Lehrlinge?|Wie hoch ist der Beitrag?
        |Und in Bern?|Was ist ein VPN?
        |Ich bin Vegetarier, welche Gerichte gehen?|Kannst du das kürzer sagen?|Wann ist Abgabe?|Wer bist du?|Nein""",
    "fr": """Combien de jours de vacances ai-je ?|Combien ça coûte ?|OK merci|Qui est responsable ?
        |Et l'année prochaine ?|Bonjour|Où est le formulaire ?|Oui|Et pour les apprentis ?|Quel est le montant ?|Merci !
        |Et à Genève ?
        |Je suis végétarien, quels plats ?|Qu'est-ce qu'un VPN ?|C'est quand ?|Qui es-tu ?|Non merci""",
    "it": """Quanti giorni?|Quanti giorni di ferie ho?|Quanto costa?|OK grazie|Chi è responsabile?|E l'anno prossimo?
        |Ciao|Dove trovo il modulo?|Sì|Vale anche per gli apprendisti?|Qual è l'importo?|Sono vegetariano, quali piatti?
        |E a Lugano?|Che cos'è una VPN?|Quando?|Chi sei?|Posso lavorare da casa?""",
    "en": """How many vacation days do I have?|How much is it?|OK thanks|Who is responsible?|And next year?|Hello
        |Where is the form?|Yes please|Does it apply to apprentices?|What is the amount?|Thanks!|And in Bern?|When?
        |I am vegetarian, which dishes?|What is a VPN?|Who are you?|Can I work from home?""",
}
QUESTIONS = [(locale, text.strip()) for locale, texts in SHORT.items() for text in texts.split("|")]


@pytest.mark.parametrize(("locale", "text"), QUESTIONS)
def test_short_questions_have_their_language(locale, text):
    assert detect_locale(text, "fr" if locale != "fr" else "de") == locale


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "42",
        "???",
        "😀",
        "日本語",
        "VPN",
        "Bern",
        "x = f(y);",
        "the_end_of(it);\nreturn of_the_day;",
        "SELECT * FROM users WHERE id=3",
        "https://a.example/the/of",
    ],
)
@pytest.mark.parametrize("fallback", ["de", "it"])
def test_without_a_language_it_is_the_fallback(text, fallback):
    assert detect_locale(text, fallback) == fallback


def test_the_end_of_a_message_decides_because_documents_stand_before_the_question():
    message = (
        "This handbook is about vacation and holidays of all employees.\n" * 300 + "\n\nWie viele Ferientage habe ich?"
    )

    assert detect_locale(message, "fr") == "de"


@pytest.mark.parametrize(
    ("locale", "text"),
    [
        ("de", "Ich arbeite in Basel; wann öffnet die Kantine?"),
        ("fr", "Je travaille à Bâle ; quand ouvre la cantine ?"),
        ("it", "Lavoro a Basilea; quando apre la mensa?"),
        ("en", "I work in Basel; when does the canteen open?"),
    ],
)
def test_a_sentence_with_a_semicolon_is_no_code(locale, text):
    assert detect_locale(text, "fr" if locale != "fr" else "de") == locale


def test_code_after_a_question_does_not_decide():
    assert detect_locale("Perché non funziona?\n\n```python\nfor x in the_list: print(x)\n```", "de") == "it"


def test_the_condensed_question_decides_where_a_long_message_holds_documents():
    document = "Die Ferien dauern fünf Wochen. " * 100

    assert locale_of_turn("How many days do I have?\n" + document, "How many vacation days do I have?", "fr") == "en"
    assert locale_of_turn("Et moi ?", "How many vacation days do I have?", "de") == "fr"
    assert locale_of_turn("2025?", "Quanti giorni di ferie ho nel 2025?", "de") == "it"
    assert locale_of_turn("2025?", "2025?", "fr") == "fr"

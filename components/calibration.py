"""Measure how an embedder's cosines lie, so that its settings need no guessing."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from haystack.components.embedders import OpenAITextEmbedder

from components.embedding_call import embed

# Questions, each with the memory that answers it. Nothing else here has to do with each other.
PAIRS = (
    ("Which diet do I follow?", "Has been eating vegan food for two years"),
    ("When does my train leave in the morning?", "Takes the 6:42 train to work"),
    ("What is the name of my dog?", "Has a dachshund called Waldi"),
    ("Which instrument do I play?", "Plays the cello in an amateur orchestra"),
    ("How many days do I work?", "Works 60 percent, Monday to Wednesday"),
    ("Where did I study?", "Has a degree in chemistry from Vienna"),
    ("Auf welche Nüsse bin ich allergisch?", "Verträgt keine Haselnüsse"),
    ("Welches Auto fahre ich?", "Fährt einen alten Kombi mit Dieselmotor"),
    ("Wann habe ich Geburtstag?", "Ist am 3. März 1984 geboren"),
    ("Welche Sprache lerne ich gerade?", "Besucht einen Abendkurs in Finnisch"),
    ("Wie heißt meine Vorgesetzte?", "Berichtet an Frau Keller aus der Buchhaltung"),
    ("Welchen Drucker haben wir im dritten Stock?", "Im dritten Stock steht ein Laserdrucker für A3"),
    ("Quel sport est-ce que je pratique ?", "Fait de l'escalade deux fois par semaine"),
    ("Où est-ce que j'habite ?", "Vit à Lausanne près de la gare"),
    ("Quel est mon plat préféré ?", "Adore la soupe à l'oignon"),
    ("Combien d'enfants ai-je ?", "A deux filles et un fils"),
    ("Qual è la mia squadra?", "Tifa per la squadra di Bergamo"),
    ("Dove vado in vacanza?", "Passa ogni agosto in Sardegna"),
    ("Che lavoro faccio?", "È infermiera al pronto soccorso"),
    ("Quale libro sto leggendo?", "Sta leggendo un romanzo sulla Resistenza"),
)


@dataclass(frozen=True)
class Calibration:
    """
    What was measured.

    :param background_cosine: Mean cosine of questions and memories that have nothing to do with each other.
    :param background_spread: Standard deviation of these.
    :param min_score: Floor that leaves out no memory that answers its question, and as much as possible of the rest.
    :param answers_cosine: Mean cosine of questions and the memories that answer them.
    """

    background_cosine: float
    background_spread: float
    min_score: float
    answers_cosine: float


async def calibrate(questions: OpenAITextEmbedder, memories: OpenAITextEmbedder) -> Calibration:
    """
    Embed the pairs and compare each question with its own memory and with all others.

    :param questions: Embedder with the prefix for questions.
    :param memories: Embedder with the prefix for passages.
    :returns: The figures, rounded down to three digits.
    :raises EmbedderUnavailableError: If the embedder cannot be asked.
    """
    asked = await embed(questions, [question for question, _ in PAIRS])
    held = await embed(memories, [memory for _, memory in PAIRS])
    own = [_cosine(question, memory) for question, memory in zip(asked, held, strict=True)]
    background = [
        _cosine(question, memory)
        for number, question in enumerate(asked)
        for other, memory in enumerate(held)
        if other != number
    ]
    return Calibration(
        background_cosine=_down(statistics.fmean(background)),
        background_spread=_down(statistics.pstdev(background)),
        min_score=_down(max(0.0, min(own))),
        answers_cosine=_down(statistics.fmean(own)),
    )


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return _dot(one, other) / math.sqrt(_dot(one, one) * _dot(other, other))


def _down(value: float) -> float:
    return math.floor(value * 1000) / 1000

"""Memories come in the order in which they help; what has nothing to do with the question is left out."""

from haystack import Document

from components.memory_ranking import MemoryRanking
from components.memory_relevance import Background, relevance

UNJUDGED = MemoryRanking(words_weight=0.08, min_score=0.5, min_relevance=-100, background=Background())
JUDGED = MemoryRanking(words_weight=0.08, min_score=0.5, min_relevance=-2.5, background=Background())


def memory(text: str, score: float, statement: str = "", locale: str = "en") -> Document:
    return Document(id=text, content=text, score=score, meta={"statement": statement, "locale": locale})


def distant(count: int = 40, locale: str = "en") -> list[Document]:
    """Give memories that are all about equally far, as those of a question about something else."""
    return [
        memory(f"Collects stamps of year {1900 + year}", 0.79 + year * 1e-5, locale=locale) for year in range(count)
    ]


def test_a_cosine_below_the_floor_is_left_out():
    found = [memory("Likes tea", 0.8), memory("Lives in Bern", 0.4)]

    assert [kept.content for kept in UNJUDGED.best("Which tea?", "en", found, top_k=10)] == ["Likes tea"]


def test_words_decide_between_memories_that_are_equally_near():
    found = [memory("Lives in Bern", 0.80), memory("Likes green tea", 0.799), memory("Works at night", 0.78)]

    assert UNJUDGED.best("Which tea do I like?", "en", found, top_k=1)[0].content == "Likes green tea"


def test_the_statement_counts_and_stands_beside_its_fact():
    found = [memory("Is vegan", 0.80), memory("Prefers plants", 0.80, statement="I only eat zucchini on Mondays")]

    (best,) = UNJUDGED.best("What about zucchini?", "en", found, top_k=1)

    assert best.content == "Prefers plants (I only eat zucchini on Mondays)"


def test_a_statement_is_not_repeated_before_others_had_their_turn():
    said = "I moved to Bern with my dog"
    found = [memory("Lives in Bern", 0.9, said), memory("Has a dog", 0.89, said), memory("Likes tea", 0.7)]

    best = UNJUDGED.best("Who am I?", "en", found, top_k=2)

    assert [kept.id for kept in best] == ["Lives in Bern", "Likes tea"]


def test_memories_that_are_all_equally_far_from_the_question_are_left_out():
    assert JUDGED.best("Who won the football match yesterday?", "en", distant(), top_k=10) == []


def test_a_memory_that_stands_out_by_meaning_and_words_stays():
    found = [memory("Plays football in Bern", 0.92), *distant()]

    best = JUDGED.best("Where do I play football?", "en", found, top_k=10)

    assert best[0].content == "Plays football in Bern"


def test_few_memories_are_no_background_to_judge_by():
    assert len(JUDGED.best("Who won the football match?", "en", distant(5), top_k=10)) == 5


def test_words_never_speak_against_a_memory_in_another_language():
    found = distant(locale="fr")

    assert len(JUDGED.best("Who won the football match yesterday?", "en", found, top_k=10)) == 10


def test_relevance_grows_with_nearness_and_with_words_in_common():
    cosines, coverage = [0.9, 0.8, *[0.78] * 40], [1.0, 0.5, *[0.0] * 40]

    judged = relevance(cosines, coverage, Background())

    assert judged[0] > judged[1] > judged[2]


def test_nothing_found_is_nothing():
    assert JUDGED.best("Anything?", "en", [], top_k=3) == []

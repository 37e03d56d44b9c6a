"""The order by meaning and the order by words become one that trusts words only where they say something."""

from haystack import Document

from components.fusion import fuse


def ranked(**scores: float) -> list[Document]:
    return [Document(id=name, content=name, score=score) for name, score in scores.items()]


def names(documents: list[Document]) -> list[str]:
    return [document.id for document in documents]


def test_words_that_clearly_match_overrule_a_narrow_lead_in_meaning():
    by_meaning = ranked(a=0.84, b=0.835, c=0.80)
    by_words = ranked(b=20.0, c=2.0)

    assert names(fuse(by_meaning, by_words, top_k=3, words_weight=0.03)) == ["b", "a", "c"]


def test_words_in_common_by_chance_do_not_overrule_meaning():
    by_meaning = ranked(right=0.86, near=0.82, far=0.80)
    by_words = ranked(far=1.5, near=0.5)  # another language: a name or a number at most

    assert names(fuse(by_meaning, by_words, top_k=3, words_weight=0.03)) == ["right", "near", "far"]


def test_one_word_in_common_may_count_for_less_than_its_score_and_several_still_decide():
    by_meaning = ranked(right=0.86, other=0.85, far=0.80)

    def first(score: float) -> str:
        fused = fuse(by_meaning, ranked(other=score), top_k=1, words_weight=0.03, words_half_at=10)
        return names(fused)[0]

    assert first(8.0) == "right"  # alone it would be 0.24 against a lead of 0.17; here it is 0.11
    assert first(16.0) == "other"
    assert names(fuse(by_meaning, ranked(other=8.0), top_k=1, words_weight=0.03)) == ["other"]


def test_what_only_words_found_gets_in_and_never_a_cosine_of_its_own():
    fused = fuse(ranked(a=0.9, b=0.8), ranked(only_words=60.0), top_k=3, words_weight=0.03)

    assert names(fused) == ["only_words", "a", "b"]
    assert [document.score for document in fused] == [0.8, 0.9, 0.8]


def test_without_an_embedding_words_alone_decide():
    fused = fuse([], ranked(a=12.0, b=3.0), top_k=5, words_weight=0.03)

    assert names(fused) == ["a", "b"]
    assert [document.score for document in fused] == [1.0, 0.25]


def test_nothing_found_is_nothing():
    assert fuse([], [], top_k=3, words_weight=0.03) == []


def test_a_single_passage_and_equal_scores_divide_by_nothing():
    assert names(fuse(ranked(a=0.7), [], top_k=3, words_weight=0.03)) == ["a"]
    assert names(fuse(ranked(b=0.7, a=0.7), [], top_k=3, words_weight=0.03)) == ["a", "b"]


def test_returns_no_more_than_asked_for():
    assert len(fuse(ranked(a=0.9, b=0.8, c=0.7), ranked(d=1.0), top_k=2, words_weight=0.03)) == 2

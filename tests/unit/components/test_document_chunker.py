"""Passages follow the structure of a document, carry its headings, and fit."""

from haystack import Document

from components.document_chunker import DocumentChunker
from components.token_counter import TekkenTokenCounter


def passages(text: str, **meta: str) -> list[Document]:
    return DocumentChunker(max_tokens=64).run([Document(content=text, meta={"source": "dir/file.md", **meta})])[
        "documents"
    ]


def contents(text: str, **meta: str) -> list[str | None]:
    return [passage.content for passage in passages(text, **meta)]


def test_each_passage_starts_with_the_headings_above_it():
    assert contents("# A\n\nintro\n\n## B\n\none\n\n### C\n\ntwo\n\n## D\n\nthree") == [
        "A\n\nintro",
        "A > B\n\none",
        "A > B > C\n\ntwo",
        "A > D\n\nthree",
    ]


def test_a_heading_in_a_code_block_is_no_heading():
    assert contents("# A\n\n```\n# comment\n\ncode\n```") == ["A\n\n```\n# comment\n\ncode\n```"]


def test_a_heading_without_text_is_not_lost():
    assert contents("# A\n## B\n# C\n\ntext") == ["A\n\nB", "C\n\ntext"]


def test_no_passage_is_longer_than_allowed_and_nothing_is_lost():
    words = [f"word{number}" for number in range(600)]
    text = "# Title\n\n" + " ".join(words[:300]) + "\n\n" + ". ".join(words[300:]) + "\n\n" + "x" * 3_000

    found = passages(text)

    counter = TekkenTokenCounter()
    assert (
        max(counter.count_text(passage.content or "") for passage in found) <= 64 + 2
    )  # a blank line joins head and text
    joined = " ".join(passage.content or "" for passage in found)
    assert [word for word in words if word not in joined] == []
    assert joined.count("x") == 3_000


def test_an_embedder_with_a_small_window_gets_shorter_passages():
    text = " ".join(["word"] * 500)
    chunker = DocumentChunker(max_tokens=320, window_tokens=64)

    longest = max(
        len(p.content or "") for p in chunker.run([Document(content=text, meta={"source": "a"})])["documents"]
    )

    assert longest < 64 * len("word ")


def test_passages_know_their_page_position_and_number():
    found = passages("page one\fpage two, first\n\npage two, second\f\fpage four " + "word " * 100)

    assert [passage.meta["page"] for passage in found] == [1, 4, 4]
    assert [passage.meta["position"] for passage in found] == [0, 1, 2]
    assert {passage.meta["passages"] for passage in found} == {3}


def test_a_table_repeats_the_names_of_its_columns():
    rows = "\n".join(f"person {number},{number}" for number in range(60))

    found = contents(f"name,age\n{rows}", mime_type="text/csv")

    assert len(found) > 1
    assert all((passage or "").startswith("name,age\n\nperson") for passage in found)


def test_the_title_is_the_first_heading_or_else_the_files_name():
    assert passages("intro\n\n# Handbook\n\ntext")[0].meta["title"] == "Handbook"
    assert passages("text")[0].meta["title"] == "file"


def test_each_document_has_the_language_it_is_written_in():
    assert passages("Die Ferien werden im Kalender eingetragen und genehmigt.")[0].meta["locale"] == "de"
    assert passages("Les vacances sont inscrites dans le calendrier.")[0].meta["locale"] == "fr"


def test_blank_documents_give_no_passage():
    assert contents(" \n\f\n ") == []

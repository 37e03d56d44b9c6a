"""The data, as published: XQuAD (de, en), CANARD (dev), LoCoMo."""

import json
import random
import re
import zipfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NO_ANSWER = re.compile(r"(?i)(cannotanswer|i don'?t know)")
_ADVERSARIAL = 5  # a category of LoCoMo whose questions have no answer


@dataclass(frozen=True)
class Squad:
    """Passages, and questions with the index of their passage; `reported` are those that nothing was tuned on."""

    passages: list[str]
    questions: list[str]
    targets: list[int]
    reported: list[int]


@dataclass(frozen=True)
class FollowUp:
    """A question of a dialogue: as it was asked, as people rewrote it, and the memory that answers it."""

    raw: str
    gold: str
    memory: int


@dataclass(frozen=True)
class Fact:
    """An extracted fact, the turns that it cites, and their text."""

    text: str
    cites: frozenset[str]
    statement: str


@dataclass(frozen=True)
class Conversation:
    """One person's memories, and questions with the turns that hold their evidence."""

    facts: list[Fact]
    questions: list[tuple[str, frozenset[str]]]

    def masked(self, names: list[str]) -> "Conversation":
        """Replace the names of speakers, so that they cannot tell whose memory it is."""

        def mask(text: str) -> str:
            for name in names:
                text = re.sub(rf"\b{name}\b", "the user", text)
            return text

        facts = [Fact(mask(fact.text), fact.cites, mask(fact.statement)) for fact in self.facts]
        return Conversation(facts, [(mask(question), evidence) for question, evidence in self.questions])


def xquad(folder: Path, language: str) -> Squad:
    """Read one language of XQuAD; every other article is reported."""
    passages: list[str] = []
    questions: list[str] = []
    targets: list[int] = []
    reported: list[int] = []
    for number, article in enumerate(json.loads((folder / "xquad" / f"xquad.{language}.json").read_text())["data"]):
        for paragraph in article["paragraphs"]:
            if paragraph["context"] not in passages:
                passages.append(paragraph["context"])
            for question in paragraph["qas"]:
                if number % 2:
                    reported.append(len(questions))
                questions.append(question["question"])
                targets.append(passages.index(paragraph["context"]))
    return Squad(passages, questions, targets, reported)


def canard(folder: Path, count: int = 500) -> tuple[list[str], list[FollowUp]]:
    """Read the memories that the dialogues' answers make, and a sample of follow-up questions."""
    dialogues: dict[str, dict[int, Any]] = defaultdict(dict)
    for row in json.loads((folder / "canard" / "dev.json").read_text()):
        dialogues[row["QuAC_dialog_id"]][row["Question_no"]] = row
    memories: list[str] = []
    questions: list[FollowUp] = []
    for _, turns in sorted(dialogues.items()):
        title, section = turns[min(turns)]["History"][:2]
        for number, turn in sorted(turns.items()):
            following = turns.get(number + 1)
            if following is None or len(following["History"]) != len(turn["History"]) + 2:
                continue
            if _NO_ANSWER.match(following["History"][-1]):
                continue
            memories.append(f"{title} ({section}): {following['History'][-1]}")
            if number > 1:
                questions.append(FollowUp(turn["Question"], turn["Rewrite"], len(memories) - 1))
    random.Random(0).shuffle(questions)
    return memories, questions[:count]


def inlined(folder: Path, question: str, number: int) -> str:
    """Make the message that a client sends which puts a whole document before the question."""
    document = "\n\n".join(xquad(folder, "en").passages[number % 8 * 20 :][:20])
    return (
        "Use the context below to answer the question that follows it.\n\n"
        f'<context>\n<source id="1">{document}</source>\n</context>\n{question}'
    )


def locomo(folder: Path) -> tuple[list[Conversation], list[list[str]]]:
    """Read the conversations, and the names of their speakers; questions without an answer are left out."""
    conversations, names = [], []
    with zipfile.ZipFile(folder / "locomo" / "locomo10.zip") as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".json") and "__MACOSX" not in name:
                data = json.loads(archive.read(name))
                conversations.append(_conversation(data))
                speakers = [data["speaker_a"], data["speaker_b"]]
                names.append([*speakers, *(speaker[:3] for speaker in speakers)])
    return conversations, names


def _conversation(data: dict[str, Any]) -> Conversation:
    said: dict[str, str] = {}
    cited: list[tuple[str, frozenset[str]]] = []
    for session in range(1, 60):
        for turn in data.get(f"session_{session}") or []:
            shared = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            said[turn["dia_id"]] = f"{turn['speaker']}: {turn['text']}{shared}"
        for observations in (data.get(f"session_{session}_observation") or {}).values():
            cited += [(text, frozenset(re.findall(r"D\d+:\d+", str(source)))) for text, source in observations]
    facts = [Fact(text, cites, " ".join(said[turn] for turn in sorted(cites & said.keys()))) for text, cites in cited]
    questions = []
    for question in data["qa"]:
        mentioned = re.findall(r"D:?(\d+):0*(\d+)", str(question.get("evidence", [])))
        evidence = frozenset(f"D{int(session)}:{int(turn)}" for session, turn in mentioned) & said.keys()
        if evidence and question["category"] != _ADVERSARIAL:
            questions.append((question["question"], evidence))
    return Conversation(facts, questions)

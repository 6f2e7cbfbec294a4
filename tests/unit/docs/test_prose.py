"""The sentences of the sources and of the documentation keep the mechanical rules of plain English."""

from __future__ import annotations

import pytest

from tests.unit.docs.pages import ROOT
from tests.unit.docs.prose import RULES, Sentence, sentences_of_markdown, sentences_of_python

#: The share of sentences that may break a rule. A hit is a hint and not a proof.
MOST_IN_SOURCES, MOST_IN_DOCUMENTATION, MOST_IN_TESTS = 0.01, 0.03, 0.03


def offenders(sentences: list[Sentence]) -> list[str]:
    return [
        f"{sentence.path.relative_to(ROOT)}:{sentence.line}: [{', '.join(rules)}] {sentence.text[:160]}"
        for sentence in sentences
        if (rules := sentence.broken_rules())
    ]


def test_the_sources_keep_the_rules_of_plain_english() -> None:
    sentences = [found for path in sorted((ROOT / "src").rglob("*.py")) for found in sentences_of_python(path)]
    assert len(offenders(sentences)) <= MOST_IN_SOURCES * len(sentences), "\n".join(offenders(sentences))


def test_the_tests_keep_the_rules_of_plain_english() -> None:
    folders = [ROOT / name for name in ("tests", "benchmarks", "examples", "deploy", "tools")]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py")) if path.parent.name != "blocks"]
    sentences = [found for path in paths for found in sentences_of_python(path)]
    assert len(offenders(sentences)) <= MOST_IN_TESTS * len(sentences), "\n".join(offenders(sentences))


def test_the_documentation_keeps_the_rules_of_plain_english() -> None:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    sentences = [found for page in pages for found in sentences_of_markdown(page)]
    assert len(offenders(sentences)) <= MOST_IN_DOCUMENTATION * len(sentences), "\n".join(offenders(sentences))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("a word for people", "The first thread who asks gets the lease."),
        ("no number", "Waits so long before the next poll."),
        ("no subject", "What the server has answered."),
        ("not idiomatic", "The lock is held inside of the block."),
        ("what … what", "What a workflow gives is what its last task gave."),
    ],
)
def test_each_rule_finds_a_sentence_that_breaks_it(rule: str, text: str) -> None:
    assert rule in Sentence(ROOT, 1, text).broken_rules()
    assert set(RULES) >= {rule}


def test_a_clear_sentence_breaks_no_rule() -> None:
    assert Sentence(ROOT, 1, "Return the workflows that may start now.").broken_rules() == []

"""Where text that is still being written is cut into clauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.models.starter.spoken_text.clauses import LONGEST, Break, Clause, ClauseSplitter


def clauses(*pieces: str) -> list[Clause]:
    """Everything that comes out when ``pieces`` arrive one after the other."""
    splitter = ClauseSplitter()
    found: list[Clause] = []
    for piece in pieces:
        splitter.push(piece)
        while (clause := splitter.next()) is not None:
            found.append(clause)
    splitter.end()
    while (clause := splitter.next()) is not None:
        found.append(clause)
    return found


def texts(text: str) -> list[str]:
    return [clause.text for clause in clauses(text)]


@pytest.mark.parametrize(
    "parts",
    [
        ("Hello. ", "How are you?"),
        ("Yes! ", "No."),
        ("Is it? ", "It is."),
        ("It costs 3.50 today. ", "Cheap."),
        ("It is 1,000 or 10:30 now. ", "Right."),
        ("Dr. Smith is here. ", "Good."),
        ("Ask Mr. and Mrs. Jones. ", "Good."),
        ("Take fruit, ", "e.g. apples. ", "Good."),
        ("The U.S. Army came. ", "Good."),
        ("John F. Kennedy spoke. ", "Good."),
        ("Take vitamin C. ", "Good."),
        ("So do I. ", "Good."),
        ("Bring milk, ", "etc. ", "Then go."),
        ("He came at 5 p.m. ", "She left."),
        ("He came at 5 p.m. and left. ", "Good."),
        ("We live in St. Louis. ", "Good."),
        ("We live on Main St. ", "You do not."),
        ("It is on p. 12. ", "Look."),
        ("Apple Inc. grew. ", "Good."),
        ("See example.com now. ", "Good."),
        ('He said "No." ', "Then he left."),
        ("**Bold end.** ", "Then more."),
        ("Well... ", "I think so."),
        ("Well... maybe so. ", "Good."),
        ("On May 5, 2024, ", "we met."),
        ("Good,\n", "She said."),
        ("a soft\nwrap. ", "Good."),
        ("The heading\n\n", "The text."),
        ("# Heading\n", "text"),
        ("- one\n", "- two\n", "- three"),
        ("1. First\n", "2. Second"),
        ("你好。", "再见。"),
    ],
)
def test_clauses_end_where_sentences_and_phrases_do(parts: tuple[str, ...]) -> None:
    assert texts("".join(parts)) == list(parts)


def test_the_first_clause_is_short_and_later_ones_are_longer() -> None:
    text = "When the sun came up, the birds began to sing, and so did we. " * 8
    lengths = [len(clause.text) for clause in clauses(text.replace(". ", ", "))]
    assert lengths[0] <= 30
    assert lengths[0] < lengths[2] < lengths[3]
    assert max(lengths) <= LONGEST


def test_a_long_phrase_without_any_mark_is_cut_before_a_linking_word() -> None:
    first, *_ = texts(
        "The old man from the village said to me one evening that he had seen the river change its course"
    )
    assert first == "The old man from the village said "


def test_an_amount_is_never_cut_from_its_unit() -> None:
    for clause in clauses("word " * 9 + "20 million dollars " * 30):
        assert not clause.text.rstrip().endswith("20")


def test_a_run_without_any_gap_is_cut_at_the_limit() -> None:
    assert [len(text) for text in texts("x" * (2 * LONGEST + 10))] == [LONGEST, LONGEST, 10]


def test_a_sentence_is_given_out_as_soon_as_the_next_character_proves_its_end() -> None:
    splitter = ClauseSplitter()
    splitter.push("It costs 3.")
    assert splitter.next() is None
    splitter.push("50 today. ")
    assert splitter.next() is None
    splitter.push("C")
    clause = splitter.next()
    assert clause is not None
    assert clause.text == "It costs 3.50 today. "


def test_breaks_say_how_long_the_silence_is_to_be() -> None:
    text = "Well, it rained. It poured.\n\nThen it stopped"
    assert [clause.after for clause in clauses(text)] == [Break.SENTENCE, Break.PARAGRAPH, Break.END]
    assert clauses("As far as I know, it rained")[0].after is Break.PHRASE


def test_fenced_code_is_cut_line_by_line_and_marked() -> None:
    found = clauses("Run this:\n```python\nx = 1\ny = 2\n```\nDone.")
    assert [(clause.text.strip(), clause.code) for clause in found] == [
        ("Run this:", False),
        ("```python", False),
        ("x = 1", True),
        ("y = 2", True),
        ("```", False),
        ("Done.", False),
    ]


def test_clauses_know_whether_they_begin_a_line() -> None:
    assert [clause.line_start for clause in clauses("One. Two.\nThree.")] == [True, False, True]


WRITING = st.lists(
    st.sampled_from(
        [
            *(
                "Hello",
                "Dr.",
                "e.g.",
                "U.S.",
                "3.50",
                "10:30",
                "1,000",
                "etc.",
                "p.m.",
                "I",
                "and",
                "word",
                "Paris",
                "5",
            ),
            *(" ", " ", " ", " ", ". ", ", ", "; ", "? ", "! ", "... ", "\n", "\n\n", "\n- ", "\n1. ", "\n```\n"),
            *("**", '"', "(", ")", "—", "😀", "é", "。", "x" * 60),
        ]
    ),
    max_size=40,
).map("".join)


@given(text=WRITING, data=st.data())
def test_clauses_depend_on_the_text_alone(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = clauses(text)
    assert clauses(*pieces) == whole
    assert clauses(*text) == whole
    assert "".join(clause.text for clause in whole) == text
    assert all(clause.text for clause in whole)

"""What is said for what is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.models.starter.spoken_text.clauses import Break, Clause
from voice_omni.models.starter.spoken_text.pronunciation import Pronouncer
from voice_omni.models.starter.spoken_text.script import read_aloud, spoken_form, write_script
from voice_omni.models.starter.voice import Voice, open_voice

TABLE = [
    # whole numbers
    ("I have 3 cats.", "i have three cats"),
    ("0", "zero"),
    ("1,024 people", "one thousand twenty four people"),
    ("400000 soldiers", "four hundred thousand soldiers"),
    ("1,000,001", "one million one"),
    ("room 1500", "room one thousand five hundred"),
    ("agent 007", "agent zero zero seven"),
    ("it was -5 outside", "it was minus five outside"),
    ("7.9 billion", "seven point nine billion"),
    ("123456789012345678901234567890", " ".join(["one two three four five six seven eight nine zero"] * 3)),
    # decimals, powers, versions
    ("3.14", "three point one four"),
    ("0.05", "zero point zero five"),
    (".5", "point five"),
    ("version 1.2.3", "version one point two point three"),
    ("6.02e23", "six point zero two times ten to the twenty three"),
    ("1e-5", "one times ten to the minus five"),
    ("3 × 10⁸ m/s", "three times ten to the eight meters per second"),
    ("10^6", "ten to the six"),
    ("x² + y³", "X squared plus Y cubed"),
    # ordinals, fractions, decades, ranges
    ("the 1st, 2nd, 3rd and 21st", "the first second third and twenty first"),
    ("the 100th day", "the one hundredth day"),
    ("1/2 cup", "one half cup"),
    ("3/4 of it", "three quarters of it"),
    ("2 1/2 hours", "two and a half hours"),
    ("1½ cups", "one and a half cups"),
    ("5/100", "five over one hundred"),
    ("open 24/7", "open twenty four seven"),
    ("the 1980s and '90s", "the nineteen eighties and nineties"),
    ("pages 10-20", "pages ten to twenty"),
    ("1914–1918", "nineteen fourteen to nineteen eighteen"),
    ("a 16:9 screen", "a sixteen to nine screen"),
    # money
    ("$3.50", "three dollars and fifty cents"),
    ("$1", "one dollar"),
    ("$0.99", "ninety nine cents"),
    ("$1.01", "one dollar and one cent"),
    ("€20", "twenty euros"),
    ("20 €", "twenty euros"),
    ("3,50 €", "three euros and fifty cents"),
    ("£1.2 million", "one point two million pounds"),
    ("$1.5M", "one point five million dollars"),
    ("$10k", "ten thousand dollars"),
    ("-$5", "minus five dollars"),
    ("$5-10", "five to ten dollars"),
    ("$5/month", "five dollars per month"),
    ("¥500", "five hundred yen"),
    ("£0.50", "fifty pence"),
    ("$1,299.99", "one thousand two hundred ninety nine dollars and ninety nine cents"),
    # percentages, degrees, units
    ("25%", "twenty five percent"),
    ("10-15% off", "ten to fifteen percent off"),
    ("-40°C", "minus forty degrees celsius"),
    ("98.6 °F", "ninety eight point six degrees fahrenheit"),
    ("a 90° turn", "a ninety degrees turn"),
    ("5 km", "five kilometers"),
    ("1 kg", "one kilogram"),
    ("100km/h", "one hundred kilometers per hour"),
    ("16GB of RAM", "sixteen gigabytes of ram"),
    ("200 ms", "two hundred milliseconds"),
    ("a 5-mile run", "a five mile run"),
    ("50 m²", "fifty square meters"),
    ("he is 5'10\" tall", "he is five foot ten tall"),
    ("5 in a row", "five in a row"),
    # dates and times
    ("2024-05-03", "may third twenty twenty four"),
    ("5/6/2023", "may sixth twenty twenty three"),
    ("25/12/2023", "december twenty fifth twenty twenty three"),
    ("May 5, 2024", "may fifth twenty twenty four"),
    ("on May 5th", "on may fifth"),
    ("the 4th of July", "the fourth of july"),
    ("4 July 1776", "the fourth of july seventeen seventy six"),
    ("Jan. 5", "january fifth"),
    ("June 2020", "june twenty twenty"),
    ("in 1905", "in nineteen oh five"),
    ("in 2005", "in two thousand five"),
    ("since 1492", "since fourteen ninety two"),
    ("1900", "one thousand nine hundred"),
    ("10:30", "ten thirty"),
    ("9:05 PM", "nine oh five P M"),
    ("10 a.m.", "ten A M"),
    ("5pm", "five P M"),
    ("10:00", "ten o'clock"),
    ("14:00", "fourteen hundred"),
    ("9:00-10:30 am", "nine o'clock to ten thirty A M"),
    # telephone numbers
    ("+1 (555) 123-4567", "plus one five five five one two three four five six seven"),
    ("555-1234", "five five five one two three four"),
    ("+44 20 7946 0958", "plus four four two zero seven nine four six zero nine five eight"),
    # addresses of the net, files
    ("https://example.com/foo-bar", "example dot com slash foo dash bar"),
    ("Visit www.example.co.uk.", "visit example dot co dot U K"),
    ("joe.smith@example.org", "joe dot smith at example dot org"),
    ("Run main.py now", "run main dot P Y now"),
    ("Node.js", "node dot J S"),
    ("@openai #winning", "at openai hashtag winning"),
    # abbreviations
    ("Dr. Smith met Mr. Jones and Mrs. Lee.", "doctor smith met mister jones and missus lee"),
    ("fruit, e.g. apples, etc.", "fruit for example apples et cetera"),
    ("i.e. this", "that is this"),
    ("Main St. in St. Louis", "main street in saint louis"),
    ("No. 5", "number five"),
    ("Is it so? No. Never.", "is it so no never"),
    ("the U.S. Army", "the U S army"),
    ("John F. Kennedy", "john F kennedy"),
    ("cats vs. dogs", "cats versus dogs"),
    ("w/ milk, w/o sugar", "with milk without sugar"),
    # initialisms and names
    ("NASA and the FBI", "nasa and the F B I"),
    ("the US and the UK", "the U S and the U K"),
    ("tell us about it", "tell us about it"),
    ("two APIs", "two A P I's"),
    ("the CEO's car", "the C E O's car"),
    ("HELLO WORLD THIS IS LOUD", "hello world this is loud"),
    ("STOP it", "stop it"),
    ("OpenAI", "open A I"),
    ("GPT-4", "G P T four"),
    ("MP3 and H2O", "M P three and H two O"),
    ("COVID-19", "covid nineteen"),
    ("AT&T", "A T and T"),
    ("C++ and C#", "C plus plus and C sharp"),
    ("TCP/IP", "T C P I P"),
    ("vitamin A", "vitamin A"),
    ("A dog", "a dog"),
    # Roman numerals
    ("Henry VIII", "henry the eighth"),
    ("World War II", "world war two"),
    ("Chapter IV", "chapter four"),
    ("I am", "i am"),
    # symbols
    ("2 + 2 = 4", "two plus two equals four"),
    ("3*4", "three times four"),
    ("10 / 2", "ten divided by two"),
    ("5 - 3 = 2", "five minus three equals two"),
    ("5 > 3", "five is greater than three"),
    ("R&D", "R and D"),
    ("and/or", "and or"),
    ("#1", "number one"),
    ("±5", "plus or minus five"),
    # Markdown
    ("## A heading", "a heading"),
    ("**bold** and *italic* and __strong__", "bold and italic and strong"),
    ("`code` and ~~gone~~", "code and gone"),
    ("[a link](https://example.com) here", "a link here"),
    ("- an item", "an item"),
    ("1. First", "one first"),
    ("> quoted", "quoted"),
    ("| a cell | other |", "a cell other"),
    ("---", ""),
    ("snake_case_name", "snake case name"),
    (r"\frac{1}{2}", "one over two"),
    # codes, titles without a full stop, letters
    ("v0.1.0", "version zero point one point zero"),
    ("CO₂ and FY2022", "C O two and F Y twenty twenty two"),
    ("Mr & Mrs Smith", "mister and missus smith"),
    ("Type A or type B", "type A or type B"),
    ("parts I, II and III", "parts i two and three"),
    ("5 ft 6 in tall", "five foot six tall"),
    ("call 911 or 1-800-555-0199", "call nine one one or one eight zero zero five five five zero one nine nine"),
    ("3 p.m. EST in Rm. 12B", "three P M E S T in room twelve B"),
    ("rock 'n' roll, I'd've", "rock and roll i'd've"),
    ("Mon-Fri, Jan–Mar", "monday to friday january to march"),
    ("31.12.1999", "december thirty first nineteen ninety nine"),
    ("£5.99/kg", "five pounds and ninety nine pence per kilogram"),
    ("Elizabeth II's reign, the U.S.'s GDP", "elizabeth the second's reign the U S's G D P"),
    ("WWII", "world war two"),
    ("LLaMA-2-7B and SmolLM2-135M", "llama two seven B and smol L M two one hundred thirty five million"),
    ("MP4s and PDFs", "M P four's and P D F's"),
    ("10/10, I/O", "ten out of ten I O"),
    ("my PIN is code 1234", "my pin is code one two three four"),
    ("Mmm, shh!", "mmm shh"),
    # punctuation, emoji, other scripts
    ("“Smart” ‘quotes’ (and brackets)", "smart quotes and brackets"),
    ("don’t", "don't"),
    ("Wait... what?", "wait what"),
    ("Great 🎉👍🏽!", "great"),
    ("café in Zürich", "cafe in zurich"),
    ("ＡＢＣ １２", "A B C twelve"),
    ("Привет means hello", "privet means hello"),
    ("π is a number", "pi is a number"),
    ("안녕", "annyeong"),
    ("你好", "chinese characters"),
    ("sooooo good", "so good"),
]


@pytest.fixture(scope="module")
def pronouncer() -> Pronouncer:
    return Pronouncer.english()


@pytest.fixture(scope="module")
def voice() -> Voice:
    return open_voice()


def clause(text: str, after: Break = Break.END, *, code: bool = False) -> Clause:
    return Clause(0, text, after, line_start=True, code=code)


@pytest.mark.parametrize(("written", "spoken"), TABLE)
def test_what_is_written_is_said_as_people_say_it(written: str, spoken: str, pronouncer: Pronouncer) -> None:
    assert spoken_form(written, pronouncer.known) == spoken


def test_code_is_said_without_its_brackets(pronouncer: Pronouncer) -> None:
    items = read_aloud("def add(a, b):", pronouncer.known, code=True)
    assert [word for item in items for word in item.words] == ["def", "add", "A", "B"]
    assert not any(item.stop for item in items)


def test_list_marks_are_silent_only_where_a_line_begins(pronouncer: Pronouncer) -> None:
    items = read_aloud("1. one", pronouncer.known, line_start=False)
    assert [word for item in items for word in item.words] == ["one", "one"]
    assert spoken_form("x - y", pronouncer.known) == "X Y"


WRITING = st.one_of(
    st.text(max_size=80),
    st.lists(st.sampled_from([written for written, _ in TABLE]), max_size=3).map(" ".join),
    st.text(alphabet="aA1.,:;-/$%€#*_`[](){}<>|&@ \n\t'\"+=", max_size=60),
)


@given(text=WRITING, after=st.sampled_from(list(Break)), code=st.booleans())
def test_any_writing_can_be_said_and_no_character_of_it_is_lost(
    text: str, after: Break, code: bool, pronouncer: Pronouncer, voice: Voice
) -> None:
    script = write_script(clause(text, after, code=code), pronouncer)
    assert len(voice.phoneme_ids(script.phonemes)) == len(script.phonemes)
    assert "".join(mark for _, mark in script.marks) == text
    positions = [position for position, _ in script.marks]
    assert positions == sorted(positions)


@given(word=st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=20))
def test_no_word_is_silent(word: str, pronouncer: Pronouncer) -> None:
    assert write_script(clause(word), pronouncer).phonemes.rstrip(".")


def test_a_mark_lies_where_its_word_is_said(pronouncer: Pronouncer) -> None:
    script = write_script(clause("*It* costs $3.50 (a lot) 🎉"), pronouncer)
    assert [text for _, text in script.marks] == ["*It* ", "costs ", "$3.50 ", "(a ", "lot) 🎉"]
    said = [script.phonemes[position:] for position, _ in script.marks]
    assert said[0].startswith("ɪt kˈɔsts")
    assert said[1].startswith("kˈɔsts θɹˈiː")
    assert said[2].startswith("θɹˈiː dˈɑːlɚz")
    assert said[4] == "lˈɑːt."


@pytest.mark.parametrize(
    ("text", "after", "ending"),
    [
        ("well", Break.WORD, ","),
        ("well,", Break.PHRASE, ","),
        ("well;", Break.PHRASE, ";"),
        ("well", Break.SENTENCE, "."),
        ("well,", Break.PARAGRAPH, "."),
        ("well?", Break.SENTENCE, "?"),
        ("well?!", Break.SENTENCE, "?"),
        ("well...", Break.END, "."),
    ],
)
def test_the_melody_of_the_end_is_that_of_the_break(
    text: str, after: Break, ending: str, pronouncer: Pronouncer
) -> None:
    assert write_script(clause(text, after), pronouncer).phonemes == f"wˈɛl{ending}"


def test_stops_in_a_row_are_one_and_none_comes_first(pronouncer: Pronouncer) -> None:
    assert write_script(clause("(well), (well)."), pronouncer).phonemes == "wˈɛl, wˈɛl."

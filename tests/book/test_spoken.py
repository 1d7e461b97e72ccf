"""Written English as it is said: no figure left, nothing else touched, no text that takes long."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rhapsode.book.numerals import cardinal, ordinal, roman, year
from rhapsode.book.spoken import spoken

CASES = {
    "numbers": """
        12 miles = twelve miles
        0 = zero
        1,234,567 = one million two hundred and thirty-four thousand five hundred and sixty-seven
        999,999,999,999,999 = nine hundred and ninety-nine trillion nine hundred and ninety-nine billion nine hundred \
and ninety-nine million nine hundred and ninety-nine thousand nine hundred and ninety-nine
        24,120.10 = twenty-four thousand one hundred and twenty point one zero
        3.14 = three point one four
        about .5 of = about point five of
        1.2.3 = one point two point three
        at -5 = at minus five
        1 000 000 = one million
        1234567 = one two three four five six seven
        007 = zero zero seven
        Agent 007 = Agent zero zero seven
        01 = one
        Chapter 01 = Chapter one
    """,
    "ordinals": """
        1st = first
        22nd = twenty-second
        the 101st man = the one hundred and first man
        1,000th = one thousandth
        5TH SAILOR = fifth SAILOR
        the 3d of them = the third of them
        his 22d regiment = his twenty-second regiment
        May 2d, 1863 = May second, eighteen sixty-three
        on 3d May = on the third of May
        the 3d. stamp = the three d. stamp
        a 3D film = a three D film
        42nd St. and = forty-second Street and
    """,
    "years": """
        1842 = eighteen forty-two
        In 1905 he = In nineteen oh five he
        1900 = nineteen hundred
        2003 = two thousand and three
        2024 = twenty twenty-four
        In 1066 they = In ten sixty-six they
        1066 = one thousand and sixty-six
        the 1840s = the eighteen forties
        the 1840's = the eighteen forties
        the 1900s = the nineteen hundreds
        the 80s = the eighties
        1842's crop = eighteen forty-two's crop
        1500 miles = one thousand five hundred miles
        1914-18 = nineteen fourteen to eighteen
        1914–1918 = nineteen fourteen to nineteen eighteen
        44 B.C. was = forty-four B C was
    """,
    "parts": """
        1/2 = one half
        ½ = one half
        2½ = two and a half
        1 1/2 = one and a half
        3/4 = three quarters
        3½ lbs = three and a half pounds
        50% = fifty percent
        12.5 % = twelve point five percent
        24/7 = twenty-four seven
    """,
    "money": """
        $4.50 = four dollars and fifty cents
        $0.50 = fifty cents
        $5 = five dollars
        $1 = one dollar
        £12 = twelve pounds
        €3 = three euros
        ¥500 = five hundred yen
        $1.5 million = one point five million dollars
        £5 10s. 6d. for = five pounds ten shillings and six pence for
        £88 10s., while = eighty-eight pounds and ten shillings, while
        rooms 8s., breakfast 2s. 6d., = rooms eight shillings, breakfast two shillings and six pence,
        in the 80s. = in the eighties.
        US$5 = US five dollars
        $5-10 million = five to ten million dollars
        $5–$10 = five to ten dollars
        £1.50-£2.25 a = one pound and fifty pence to two pounds and twenty-five pence a
        €1.5–2bn = one point five to two billion euros
        100€ = one hundred euros
        9,50 € for = nine euros and fifty cents for
        I gave 5 £10 notes = I gave five ten pounds notes
        $1,200.50 = one thousand two hundred dollars and fifty cents
    """,
    "times": """
        9:15 = nine fifteen
        9.15 a.m. on = nine fifteen A M on
        at 9am = at nine A M
        9:00 = nine o'clock
        9:05 p.m. He = nine oh five P M. He
        9:15-10:30 = nine fifteen to ten thirty
        John 3:16 = John three sixteen
        John 3:16-18 = John three sixteen to eighteen
        John 3:1 = John three one
    """,
    "dates": """
        on 12 May 1842 = on the twelfth of May, eighteen forty-two
        on the 12th of May = on the twelfth of May
        on May 12 he = on May twelfth he
        May 12, 1842 = May twelfth, eighteen forty-two
        Oct. 5, 1999 = October fifth, nineteen ninety-nine
        2020-05-12 = May twelfth, twenty twenty
        you may 5 = you may five
    """,
    "addresses": """
        See www.example.com. = See www dot example dot com.
        https://en.example.org/a = en dot example dot org/a
        ann@mail.example.co.uk = ann at mail dot example dot co.uk
        It ended.Now it is = It ended.Now it is
    """,
    "signs without a sound": """
        I am ❤️ so 😀 glad. 👨‍👩‍👧 = I am so glad.
        A → B, “😀” and (yes ★★☆) = A B, “” and (yes)
        © 2020 Acme™ here = copyright twenty twenty Acme here
        It | was ~so~ a snake_case ____, and/or C:\\x = It was so a snake case, and or C: x
        at 5 km/h or ~5 m/s = at five kilometres per hour or about five metres per second
        [so] it {was} = (so) it (was)
        Œdipus, Cæsar, straße, Łódź = Oedipus, Caesar, strasse, Lódź
    """,
    "headings": """
        I = one
        I. = one.
        I. THE BURIAL OF = one. THE BURIAL OF
        II. THE GAME = two. THE GAME
    """,
    "ranges and strings": """
        12-15 = twelve to fifteen
        12–15 = twelve to fifteen
        10-4 = ten four
        367-77 = three hundred and sixty-seven to seventy-seven
        pp. 5-7 = pages five to seven
        100-1500 = one hundred to fifteen hundred
        555-1234 = five five five, one two three four
        555-123-4567 = five five five, one two three, four five six seven
    """,
    "measures": """
        5 km = five kilometres
        1 km = one kilometre
        5kg = five kilograms
        6 ft. tall = six feet tall
        He is 6 ft. The = He is six feet. The
        5 m² = five square metres
        10°C = ten degrees Celsius
        a turn of 5° = a turn of five degrees
        51°30′ N = fifty-one degrees thirty minutes N
        60 mph = sixty miles per hour
        5'10" = five feet ten inches
    """,
    "Roman numerals": """
        Chapter XII = Chapter twelve
        CHAPTER IV. THE END = CHAPTER four. THE END
        Chapter I = Chapter one
        Chapter I. Home = Chapter one. Home
        Chapters XI and XII = Chapters eleven and twelve
        Act v, scene iii = Act five, scene three
        Vol. IV = Volume four
        Henry VIII = Henry the Eighth
        Henry VIII's wives = Henry the Eighth's wives
        LOUIS XIV. = LOUIS the Fourteenth.
        King Charles I was = King Charles the First was
        Charles I, who = Charles the First, who
        World War II = World War two
        John Smith III = John Smith the Third
        XII = twelve
        IV. The Return = four. The Return
    """,
    "signs": """
        R&D = R and D
        Smith & Co. is = Smith and Company is
        a@b.com = a at b dot com
        #5 = number five
        5 + 3 = 8 -> five plus three equals eight
        1 − 4] = [− 3 -> one minus four) equals (minus three
        x² = x squared
        10³ = ten cubed
        §5 = section five
        H2O = H two O
        20-year-old = twenty-year-old
    """,
    "abbreviations": """
        Mr. and Mrs. Smith = Mister and Missus Smith
        Dr Jones = Doctor Jones
        Prof. Hart, Capt. Hook and Col. Mustard = Professor Hart, Captain Hook and Colonel Mustard
        St. John = Saint John
        St John = Saint John
        on Main St. and = on Main Street and
        No. 5 = Number five
        vol. 3 = volume three
        tea, milk, etc. = tea, milk, et cetera.
        tea, etc. The end = tea, et cetera. The end
        fruit, e.g. pears = fruit, for example, pears
        one, i.e. none = one, that is, none
        Tom vs. Jerry = Tom versus Jerry
        c. 1850 = circa eighteen fifty
    """,
}
PAIRS = [
    (kind, *(pair.split(" -> ") if " -> " in pair else pair.rsplit(" = ", 1)))
    for kind, pairs in CASES.items()
    for pair in map(str.strip, pairs.strip().split("\n"))
]


@pytest.mark.parametrize(("kind", "written", "said"), PAIRS)
def test_said_as_an_english_reader_would(kind: str, written: str, said: str) -> None:
    assert spoken(written) == said, kind


@pytest.mark.parametrize(
    "text",
    [
        "I. Then he left.",
        "“I.”",
        "Yes. I.",
        "So it was. com or was it? .com and a.community",
        "In this chapter I explain why.",
        "Part I remember, part I forgot.",
        "That was the best part I remember.",
        "She and Charles I went out.",
        "She put on a CD. He lived in Washington DC.",
        "Ann Hale MD. MIX well.",
        "No. I will not.",
        "VITAMIN C. A civil man.",
        "It was so; no, it was not (they said) — “never!” ... Well: who's there?",
        "C++ and A+, *** === ---",
        "A word² with a note.",
        "٣ ١٢ １２ 三",  # figures of other scripts
        "The mayor may march in august company.",
    ],
)
def test_what_no_rule_takes_stays(text: str) -> None:
    assert spoken(text) == text


def test_other_languages_stay() -> None:
    assert spoken("Dr. Faust, 12 km", "de") == "Dr. Faust, 12 km"
    assert spoken("Dr. Faust, 12 km", "german") == "Dr. Faust, 12 km"
    assert spoken("12", "") == "12"
    for english in ("en", "en-GB", "EN_us", "English"):
        assert spoken("12", english) == "twelve"


PIECES = (
    "0 1 2 5 12 007 1842 1,000 . , : - – / % $ £ ° ² ½ # & + = @ ' ” I II V XIV VIII Mr. St. No. c. a.m. etc. May "
    "Henry Chapter King ft. s d th 9:15 é x"
)
TRICKY = st.lists(st.sampled_from([*PIECES.split(), " ", " ", " "]), max_size=12).map("".join)


@given(TRICKY | st.text(max_size=60))
@example("Henry VIII VI")
@example("5Mr.5Mr. St. 5")
@example("$0/0")
@example("00000/0 1,000/0")
def test_twice_is_once_and_no_digit_is_left(text: str) -> None:
    said = spoken(text)
    assert not set(said) & set(string.digits)
    assert spoken(said) == said


@given(st.text(alphabet=string.ascii_lowercase.replace("v", "") + " ,;!?“”’…—\n", max_size=80))  # so, no "vs"
def test_plain_text_is_untouched(text: str) -> None:
    assert spoken(text) == text


@given(TRICKY)
def test_no_word_is_lost(text: str) -> None:
    """What is put before and after a text of figures is still there."""
    said = spoken(f"grey {text} elk")
    assert said.startswith("grey ")
    assert said.endswith(" elk")


@given(st.integers(0, 10**15 - 1))
def test_cardinals_say_the_number(value: int) -> None:
    """Read back by adding up words, independently of how they were made."""
    small = {cardinal(str(n)): n for n in range(20)} | {cardinal(str(n)): n for n in range(20, 100, 10)}
    scales = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
    total = group = 0
    for word in cardinal(str(value)).replace("-", " ").split():
        if word == "hundred":
            group *= 100
        elif word in scales:
            total, group = total + group * scales[word], 0
        elif word != "and":
            group += small[word]
    assert total + group == value


def test_names_of_small_numbers() -> None:
    assert [cardinal(str(n)) for n in (0, 13, 20, 21, 100, 105, 110)] == (
        ["zero", "thirteen", "twenty", "twenty-one", "one hundred", "one hundred and five", "one hundred and ten"]
    )
    assert [ordinal(str(n)) for n in (1, 2, 3, 5, 8, 9, 12, 20, 100)] == (
        ["first", "second", "third", "fifth", "eighth", "ninth", "twelfth", "twentieth", "one hundredth"]
    )
    assert [year(y) for y in ("1100", "1805", "2000", "2010")] == (
        ["eleven hundred", "eighteen oh five", "two thousand", "twenty ten"]
    )


@given(st.integers(1, 3999))
def test_roman_numerals(value: int) -> None:
    pairs = ["M1000", "CM900", "D500", "CD400", "C100", "XC90", "L50", "XL40", "X10", "IX9", "V5", "IV4", "I1"]
    letters, left = "", value
    for pair in pairs:
        sign, worth = pair.rstrip(string.digits), int(pair.lstrip(string.ascii_uppercase))
        while left >= worth:
            letters, left = letters + sign, left - worth
    assert roman(letters) == value


@pytest.mark.parametrize("letters", ["", "IIII", "VX", "IC", "MIXY", "LIVII"])
def test_no_roman_numerals(letters: str) -> None:
    assert roman(letters) == 0


@pytest.mark.parametrize(
    "piece", ["1", "1-", "1:", "1/", "1,", "1.", "1,000", "$", "5Mr.", "²", "Chapter I ", "May 12 "]
)
def test_work_grows_with_the_length_only(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in places that the rules look at, not in seconds."""
    from rhapsode.book import spoken as module

    looked = 0
    apply = module._apply

    def counting(text: str, begin: int, said: str, rules: tuple[module.Rule, ...]) -> tuple[str, int] | None:
        nonlocal looked
        looked += 1
        assert len(said) <= 60
        taken = apply(text, begin, said, rules)
        assert taken is None or len(piece) == 1 or taken[1] - begin <= 120
        return taken

    monkeypatch.setattr(module, "_apply", counting)
    text = piece * 3000
    spoken(text)
    assert looked <= module._PASSES * len(text)

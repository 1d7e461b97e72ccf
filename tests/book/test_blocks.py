"""What a listener hears of HTML: the block walker."""

from __future__ import annotations

import pytest

from rhapsode.book.blocks import read_blocks
from rhapsode.book.markup import parse

HEAD = '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>'


def blocks(body: str, *wanted: str):
    root = parse(f"{HEAD}{body}</body></html>".encode())
    assert root is not None
    return read_blocks(root, wanted)


def paragraphs(body: str) -> list[str]:
    return [piece.text for piece in blocks(body).pieces]


def kinds(body: str) -> list[tuple[str, str]]:
    return [(piece.kind, piece.text) for piece in blocks(body).pieces]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<p><span>The </span><span>Vane</span><span> sailed.</span></p>", ["The Vane sailed."]),
        ('<p><span class="drop">O</span>nce it rained.</p>', ["Once it rained."]),
        ("<p>Red rose<br/>white rose</p><p>End.</p>", ["Red rose\nwhite rose", "End."]),
        ("<p>One.<br/><br/>Two.</p>", ["One.", "Two."]),
        ("<p>A&nbsp;B&nbsp;&mdash; C &amp; D &unknown;</p>", ["A B — C & D &unknown;"]),
        ("<p>a\n   b\t c</p>tail <div>x<p>y</p>z</div>", ["a b c", "tail", "x", "y", "z"]),
        ("<p>He<i>llo</i>, <b>wor</b>ld<!-- no -->.</p>", ["Hello, world."]),
        ("<p>soft\u00adhyphen zero\u200bwidth The o\ufb03ce had a \ufb01re ½ ²</p>",
         ["softhyphen zerowidth The office had a fire ½ ²"]),
        ("<p>e\u0301</p>", ["é"]),
        ("<p>A & B <![CDATA[x < y]]></p>", ["A & B x < y"]),
        ("<p>Salt & Fire < 3</p>", ["Salt & Fire < 3"]),
        ("<p>x</p><script>no()</script><style>no</style><svg><text>no</text></svg><p>y<img alt='no' src='a'/></p>",
         ["x", "y"]),
        ("<p>x<span hidden=''>no</span><span aria-hidden='true'>no</span><span style='display: none'>no</span></p>",
         ["x"]),
        ("<span style='display:block'>A</span><span style='display:block'>B</span>", ["A", "B"]),
        ("<dl><dt>Term</dt><dd>Meaning</dd></dl>", ["Term", "Meaning"]),
        ("<pre>one\n  two\n\nthree</pre>", ["one\ntwo", "three"]),
    ],
)  # fmt: skip
def test_text_breaks_only_at_blocks(body: str, expected: list[str]) -> None:
    assert paragraphs(body) == expected


def test_all_text_is_read_whatever_the_tag() -> None:
    body = '<h1>Dawn</h1><div class="para">The story text.</div><blockquote>A letter.</blockquote>bare<foo>odd</foo>'
    assert kinds(body) == [
        ("heading", "Dawn"), ("paragraph", "The story text."), ("paragraph", "A letter."), ("paragraph", "bareodd"),
    ]  # fmt: skip


def test_unclosed_tags_and_a_second_body_lose_nothing() -> None:
    body = '<p>Before.</p><img src="a.png"><p>After.</p></body><body><p>More.<br>Still'
    assert paragraphs(body) == ["Before.", "After.", "More.\nStill"]


def test_self_closed_tags_of_broken_xhtml_swallow_nothing() -> None:
    assert paragraphs("<script src='x'/><p>One <a id='x'/>two.</p><p>Three<br>four") == ["One two.", "Three\nfour"]


def test_headings_stand_alone_with_their_level() -> None:
    pieces = blocks("<h1>Chapter One</h1><h2>The Storm</h2><p>It rained.</p>").pieces
    assert [(p.kind, p.text, p.level) for p in pieces] == [
        ("heading", "Chapter One", 1), ("heading", "The Storm", 2), ("paragraph", "It rained.", 0),
    ]  # fmt: skip
    assert blocks("<div role='heading' aria-level='3'>H</div>").pieces[0].level == 3
    assert kinds("<hgroup><h2>H</h2><p>Sub</p></hgroup><p>P</p>") == [
        ("heading", "H"), ("heading", "Sub"), ("paragraph", "P"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "mark",
    ["<hr/>", '<p epub:type="z3998:scene-break">x*x</p>'.replace("x", ""), "<p>* * *</p>", "<p>⁂</p>", "<p>---</p>"],
)
def test_scene_breaks(mark: str) -> None:
    assert [kind for kind, _ in kinds(f"<p>A.</p>{mark}<p>B.</p>")] == ["paragraph", "break", "paragraph"]


@pytest.mark.parametrize("text", ["—", "“…”", "…", "a * b", "– 3 –"])
def test_other_signs_are_text(text: str) -> None:
    assert kinds(f"<p>{text}</p>") == [("paragraph", text)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('<ol start="3"><li>three</li><li>four</li></ol>', ["3. three", "4. four"]),
        ('<ol reversed=""><li>b</li><li>a</li></ol>', ["2. b", "1. a"]),
        ('<ol><li value="7">x</li><li><p>y</p><p>z</p></li></ol>', ["7. x", "8. y", "z"]),
        ('<ol type="a"><li>x</li><li>y</li></ol>', ["a. x", "b. y"]),
        ("<ol><li>x<ol><li>in</li></ol></li><li>y</li></ol>", ["1. x", "1. in", "2. y"]),
        ("<ul><li>x</li></ul>", ["x"]),
        ('<ol style="list-style-type: none"><li>x</li></ol>', ["x"]),
        ('<ol start="many"><li>x</li><li></li><li>z</li></ol>', ["1. x", "3. z"]),
    ],
)
def test_list_numbers(body: str, expected: list[str]) -> None:
    assert paragraphs(body) == expected


def test_cells_are_parted() -> None:
    body = "<table><tr><td>Name</td><td>Age</td></tr><tr><th>Ann.</th><td>9</td></tr></table>"
    assert paragraphs(body) == ["Name, Age", "Ann. 9"]


@pytest.mark.parametrize(
    "mark",
    [
        '<a epub:type="noteref" href="#n1"><sup>[*23]</sup></a>',
        '<a epub:type="noteref" href="#n1">1</a>',
        '<a role="doc-noteref" href="#n1">[1]</a>',
        '<sup><a href="notes.xhtml#n1">1</a></sup>',
        '<a href="#fn1"><sup>12</sup></a>',
        '<a href="#x9">[1]</a>',
        '<a href="#x9">(1)</a>',
        '<a href="#x9">*</a>',
        '<a href="#x9">†</a>',
        '<a class="footnote" href="#x9">3</a>',
        '[<a epub:type="noteref" href="#n1">1</a>]',
        '<sup><a href="#fn1">1</a>, <a href="#fn2">2</a></sup>',
        ' <a epub:type="noteref" href="#n1">1</a>',
    ],
)
def test_note_marks_are_not_read(mark: str) -> None:
    assert paragraphs(f"<p>He left.{mark} She stayed{mark}.</p>") == ["He left. She stayed."]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("E = mc<sup>2</sup>, 20<sup>th</sup> century, H<sub>2</sub>O, M<sup>me</sup> Rey",
         "E = mc2, 20th century, H2O, Mme Rey"),
        ('See <a href="#page12">12</a> and <a href="http://a.example/#x">[1]</a>.', "See 12 and [1]."),
        ('In <a href="#chapter2">chapter two</a>.', "In chapter two."),
        ('The <a epub:type="noteref" href="#n1">white whale</a>.', "The white whale."),
        ('<a href="#r1">*</a> A note of its own.', "* A note of its own."),
        ('10<sup>3</sup> [2] (3) *', "103 [2] (3) *"),
    ],
)  # fmt: skip
def test_what_is_no_note_mark_is_read(body: str, expected: str) -> None:
    assert paragraphs(f"<p>{body}</p>") == [expected]


def test_notes_are_left_out_and_counted_but_a_chapter_of_notes_is_kept() -> None:
    found = blocks(
        '<p>Text.</p><aside epub:type="footnote" id="n1">Note one.</aside><div role="doc-footnote">Two.</div>'
    )
    assert [p.text for p in found.pieces] == ["Text."]
    assert found.notes == 2
    kept = blocks('<section epub:type="endnotes"><h2>Notes</h2><ol><li epub:type="endnote">One.</li></ol></section>')
    assert [p.text for p in kept.pieces] == ["Notes", "1. One."]
    assert kept.notes == 0


@pytest.mark.parametrize(
    "mark",
    [
        '<span epub:type="pagebreak" id="p3">3</span>',
        '<span role="doc-pagebreak" title="3"/>',
        '<span class="pagenum">[Pg 3]</span>',
        '<span class="lnum">10</span>',
    ],
)
def test_page_and_line_numbers_are_not_read(mark: str) -> None:
    assert paragraphs(f"<p>into the Hof{mark}garten.</p>") == ["into the Hofgarten."]


def test_a_page_mark_with_text_in_it_is_read() -> None:
    body = '<div epub:type="pagebreak">This was marked by mistake and holds a paragraph.</div><p class="lnum">Ten</p>'
    assert paragraphs(body) == ["This was marked by mistake and holds a paragraph.", "Ten"]


@pytest.mark.parametrize(
    ("ruby", "expected"),
    [
        ("<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>", "かんじ"),
        ("<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>", "かんじ"),
        ("<ruby><rb>漢</rb><rb>字</rb><rt>かん</rt><rt>じ</rt></ruby>", "かんじ"),
        ("<ruby>北京<rt>Běijīng</rt></ruby>", "北京"),
        ("<ruby><img src='a.png'/><rt>よみ</rt></ruby>", "よみ"),
        ("<ruby>base</ruby>", "base"),
        ("<ruby>漢字<rt></rt></ruby>", "漢字"),
    ],
)
def test_ruby_is_read_once(ruby: str, expected: str) -> None:
    assert paragraphs(f"<p>a{ruby}b</p>") == [f"a{expected}b"]


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("<q>Go,</q> she said", "“Go,” she said"),
        ("<q>He said <q>no</q> and <q><i>left</i></q>.</q>", "“He said ‘no’ and ‘left’.”"),
        ("<q>“Go,”</q> she said", "“Go,” she said"),
        ("<q><i>«Va»</i></q>", "«Va»"),
        ("<q></q>and<q> </q>", "and"),
    ],
)
def test_quotation_marks_that_only_a_page_shows(quote: str, expected: str) -> None:
    assert paragraphs(f"<p>{quote}</p><p><q>Next.</q></p>") == [expected, "“Next.”"]


@pytest.mark.parametrize(
    ("math", "expected"),
    [
        ('<math alttext="x squared"><mi>x</mi></math>', "x squared"),
        ('<math alttext="\\frac{1}{2}"><mn>1</mn><mo>/</mo><mn>2</mn></math>', "1 / 2"),
        ('<math alttext="Alternative text not available"><msub><mi>x</mi><mn>1</mn></msub></math>', "x 1"),
        ("<math><semantics><mi>x</mi><annotation>TeX</annotation><annotation-xml><ci>no</ci></annotation-xml>"
         "</semantics></math>", "x"),
        ("<math><mi>f</mi><mfenced><mi>x</mi><mi>y</mi></mfenced></math>", "f (x, y)"),
        ("<math>\n <mi>a</mi>\n <mo>=</mo>\n <mi>b</mi></math>", "a = b"),
    ],
)  # fmt: skip
def test_formulas(math: str, expected: str) -> None:
    assert paragraphs(f"<p>Let {math} hold.</p>") == [f"Let {expected} hold."]


def test_anchors_cut_paragraphs_at_words_and_never_headings() -> None:
    found = blocks(
        '<h1 id="a">One</h1><p>First part. <a id="b"></a>Second part.</p><h2>Two <span id="c"/>more</h2>'
        '<p>wo<a id="d"/>rd</p><div id="e"><p>Last.</p></div><span hidden="" id="f">no</span><p id="unwanted">x</p>',
        "a", "b", "c", "d", "e", "f", "gone",
    )  # fmt: skip
    texts = [piece.text for piece in found.pieces]
    assert texts == ["One", "First part.", "Second part.", "Two more", "word", "Last.", "x"]
    assert found.anchors == {"a": 0, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}


@pytest.mark.parametrize("tag", ["div", "span", "b", "section", "a", "sup"])
def test_deep_nesting_loses_no_text(tag: str) -> None:
    for depth in (300, 5000, 50_000):
        body = f"<p>Start.</p>{f'<{tag}>' * depth}deep{f'</{tag}>' * depth}<p>After.</p>"
        assert " ".join(paragraphs(body)).split() == ["Start.", "deep", "After."]

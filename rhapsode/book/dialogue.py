"""A paragraph as stretches of narration and of speech, for a book that is read by two voices.

Knows quotation marks and where speech stands in a sentence; knows no voice, no line and no pause.
- What is between a pair of outer marks is one quotation; marks inside it belong to it.
- A quotation that is not closed goes on to the end of its paragraph. One that runs over paragraphs opens again
  at each of them, so a paragraph needs to know nothing of the one before.
- An apostrophe is no mark: inside a word, before an elision (’tis, ‘em), after one (James’, goin’) where a better
  end follows.
- Words that the narrator quotes are no speech: the so-called “expert”, “The Raven”. Speech has its last mark inside
  (,.!?—…) and begins where a clause does; otherwise a verb of saying beside it decides.
- Dashes that introduce speech (French, Spanish) are left to the narrator: where such a speech ends is not marked.
  Straight single marks are too, since nearly all of them are apostrophes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rhapsode.book.clean import has_sound
from rhapsode.types import Speaker

# Opening mark -> what closes it. Some marks open in one country and close in another.
_ENDS = {
    "“": re.compile(r'”|(?<=\S)(?:“(?=\s|$)|"(?!\w))'),  # many hands typed some books and mixed the kinds
    "”": re.compile(r"”"),
    "„": re.compile(r"[“”]"),
    "‚": re.compile(r"‘|’(?!\w)"),
    "«": re.compile(r"»"),
    "»": re.compile(r"«|(?<=\S)»(?!\w)"),
    "‹": re.compile(r"›"),
    "›": re.compile(r"‹|(?<=\S)›(?!\w)"),
    "「": re.compile(r"」"),
    "『": re.compile(r"』"),
    '"': re.compile(r'(?<=\S)"|”'),
}
_MARK = re.compile('[“”„‘‚«»‹›「『"]')
_WIDE_MARKS = "「『"
_TWO_SIDED = '"”»›‘‚'  # opens only where a word begins
_WORD_BEGINS_AFTER = "([{—–-―/“„«‹"
_CLOSING = '"”“’‘»«›‹」』)]'
_LAST = ",.!?…—–-;:。！？、，"  # a mark inside the quotation, before its end, that makes it speech
_LOUD = "!?…—–！？"  # one that the sentence around would not have put there
_CLAUSE_BEGINS_AFTER = ".!?…:,;—–―-。！？、，：" + _CLOSING
_SENTENCE_BEGINS_AFTER = ".!?…:—–―。！？："
_BELONGS_TO_THE_END = re.compile(r"[,.;:!?…—–。、，！？]+")
_SINGLE_END = re.compile(r"’(?!\w)")
_DOUBTFUL = re.compile(r"(?:s|in|an|o|th|wi|ol|mo)$", re.IGNORECASE)  # before ’: James’, goin’, o’
_ELISION = re.compile(
    r"‘(?:em|tis|twas|twere|twill|twould|tisn|til|till|cause|bout|n|un|er|im|round|neath|gainst|fore|cos|way|\d\ds?)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+")
_NEAR = 60  # characters beside a quotation that are looked at
_PHRASE, _SENTENCE = 6, 8  # words from which a quotation is more than a name
_FEW_WORDS = 3

# Verbs of saying: English, then German, French, Spanish, Italian, Portuguese, Dutch, Russian.
_SAYING = """
    said says say saying asked asks cried cries answered answers replied replies remarked observed returned
    exclaimed whispered whispers murmured muttered shouted shouts continued added began ejaculated interrupted
    repeated inquired enquired demanded retorted declared explained suggested responded rejoined gasped groaned
    roared screamed sighed laughed snapped growled thought told quoth sobbed shrieked yelled begged urged insisted
    protested pleaded announced stammered faltered mused agreed admitted confessed concluded commented echoed hissed
    bellowed chuckled grunted panted pursued proceeded resumed wondered warned wailed squeaked squealed croaked
    sagte sagt fragte fragt rief antwortete erwiderte meinte flüsterte schrie dachte sprach versetzte entgegnete
    murmelte dit demanda répondit cria écria reprit murmura ajouta dijo preguntó respondió contestó exclamó gritó
    murmuró disse chiese rispose gridò esclamò perguntou respondeu zei vroeg riep antwoordde сказал сказала спросил
    спросила ответил ответила крикнул крикнула
"""
_VERBS = frozenset(_SAYING.split())
_ONLY_AFTER = frozenset(["called", "calls", "went"])  # before a quotation they give it a name: called “The Crow”
_NAMING = frozenset(["entitled", "titled", "called", "named", "headed", "labelled", "labeled", "inscribed"])
_WIDE_SAYS = re.compile(r"^と(?!い[うっふ]|呼)|^[他她我你]?们?[^。，]{0,6}[说說道问問喊叫答]")


@dataclass(frozen=True, slots=True)
class _Quotation:
    begin: int  # of the opening mark
    end: int  # after the closing mark
    closed: bool


def split_dialogue(text: str) -> list[tuple[Speaker, str]]:
    """(who, text) of each stretch of a paragraph, in order, none empty; neighbours differ. Linear in its length.

    Every character but the spaces between two stretches lands in exactly one of them; a stretch has a letter or a
    digit, unless the whole paragraph has none.
    """
    spans: list[tuple[Speaker, int, int]] = []
    at = 0
    for quotation in _spoken(text):
        after = _BELONGS_TO_THE_END.match(text, quotation.end)
        end = after.end() if after else quotation.end
        spans += [("narration", at, quotation.begin), ("dialogue", quotation.begin, end)]
        at = end
    spans.append(("narration", at, len(text)))
    return [(speaker, text[begin:end].strip()) for speaker, begin, end in _joined(text, spans)]


def goes_on(before: str, after: str) -> bool:
    """Whether the stretch `after` is within the sentence that `before` began, so that little silence parts them."""
    end = before.rstrip(_CLOSING)[-1:]
    first = _WORD.search(after)
    if end not in ".!?…。！？" or first is None:
        return True
    spoken = before[-1:] in _CLOSING and after[0] not in _ENDS
    return first[0][0].islower() or (spoken and _says(_words(after)[:3]))


def _joined(text: str, spans: list[tuple[Speaker, int, int]]) -> list[tuple[Speaker, int, int]]:
    """Spans that have sound, each with the bare signs after it (the first one: before it too); neighbours differ."""
    out: list[tuple[Speaker, int, int]] = []
    begin_of_next: int | None = None  # where bare signs before the first sound begin
    for speaker, begin, end in spans:
        piece = text[begin:end]
        if not piece.strip():
            continue
        if not has_sound(piece):
            if out:
                out[-1] = (out[-1][0], out[-1][1], end)
            elif begin_of_next is None:
                begin_of_next = begin
        elif out and out[-1][0] == speaker:
            out[-1] = (speaker, out[-1][1], end)
        else:
            out.append((speaker, begin if begin_of_next is None or out else begin_of_next, end))
    if not out and begin_of_next is not None:
        out.append(("narration", 0, len(text)))
    return out


def _spoken(text: str) -> Iterator[_Quotation]:
    """The quotations that are speech."""
    heard = False  # whether someone has spoken in this paragraph
    before: tuple[_Quotation, bool] | None = None
    for quotation in _quotations(text):
        adjacent = before is not None and not has_sound(text[before[0].end : quotation.begin][:_NEAR])
        short = quotation.closed and len(text[quotation.begin : quotation.end].split()) < _SENTENCE
        if adjacent and before is not None and not before[1] and short:
            speech = False  # “The Raven,” “The Bells,” and others: what the first one is, its neighbours are
        else:
            speech = not quotation.closed or _is_speech(text, quotation, heard)
        before = quotation, speech
        heard |= speech
        if speech:
            yield quotation


# ---------------------------------------------------------------------- where quotations are


def _quotations(text: str) -> Iterator[_Quotation]:
    at = 0
    while mark := _MARK.search(text, at):
        begin = mark.start()
        found = _quotation(text, begin)
        if found is not None:
            yield found
        at = found.end if found is not None else begin + 1


def _quotation(text: str, begin: int) -> _Quotation | None:
    """The quotation that the mark at `begin` opens; None where it opens none."""
    mark = text[begin]
    before, after = text[begin - 1 : begin], text[begin + 1 : begin + 2]
    word_begins = not before or before.isspace() or before in _WORD_BEGINS_AFTER
    if mark in _TWO_SIDED and not (word_begins and after and not after.isspace()):
        return None
    if mark not in _WIDE_MARKS and not word_begins and (not after or after.isspace()):
        return None  # a closing mark, or one that was typed the wrong way round
    if mark == "‘":
        return _single(text, begin)
    end = _ENDS[mark].search(text, begin + 1)
    return _Quotation(begin, end.end(), True) if end else _Quotation(begin, len(text), False)


def _single(text: str, begin: int) -> _Quotation | None:
    """The quotation that ‘ opens. The mark that ends it is an apostrophe everywhere else."""
    elision = _ELISION.match(text, begin)
    stop = begin + 1
    while (stop := text.find("‘", stop)) >= 0 and not elision and _ELISION.match(text, stop):
        stop += 1
    limit = stop if stop >= 0 else len(text)
    likely = doubtful = 0
    for mark in _SINGLE_END.finditer(text, begin + 2, limit):
        if text[mark.start() - 1] in _LAST + "”":
            return _Quotation(begin, mark.end(), True)
        if _DOUBTFUL.search(text, max(begin + 1, mark.start() - 3), mark.start()):
            doubtful = doubtful or mark.end()
        else:
            likely = likely or mark.end()
    if elision:  # nothing ends it, or only what may be an apostrophe as well
        return None
    goes_on_below = stop < 0 and _begins_speech(text, begin)
    if likely or (doubtful and not goes_on_below):
        return _Quotation(begin, likely or doubtful, True)
    return _Quotation(begin, len(text), False) if goes_on_below else None


def _begins_speech(text: str, begin: int) -> bool:
    lead = text[max(0, begin - _NEAR) : begin].rstrip()
    return not lead or (lead[-1] in _SENTENCE_BEGINS_AFTER + "," and text[begin + 1 : begin + 2].isupper())


# ---------------------------------------------------------------------- which of them are speech


def _is_speech(text: str, quotation: _Quotation, heard: bool) -> bool:
    """Whether somebody says it; else the narrator quotes a word, a name, a title."""
    inner = text[quotation.begin + 1 : quotation.end - 1].strip()
    lead = text[max(0, quotation.begin - _NEAR) : quotation.begin].rstrip()
    follow = text[quotation.end : quotation.end + _NEAR]
    core = inner.rstrip(_CLOSING + " ")
    last = core[-1:] if core[-1:] in _LAST and core else ""
    if text[quotation.begin] in _WIDE_MARKS:
        return bool(last) or not lead or lead[-1] in _CLAUSE_BEGINS_AFTER or bool(_WIDE_SAYS.match(follow))
    words = len(inner[:200].split())
    first = _WORD.search(inner)
    capital = first is not None and not first[0][0].islower()
    said_after = _says(_words(_same_sentence(follow))[:5], after=True) or bool(_WIDE_SAYS.match(follow))
    if lead and lead[-1] not in _CLAUSE_BEGINS_AFTER:
        return _bound_speech(inner, lead, last, words, capital, said_after)
    said_before = _says(_words(re.split(r"[.!?…”]\s", lead)[-1]))
    if last:
        name = words <= _FEW_WORDS and not capital and lead[-1:] == ","  # the other word, “expert,” is better
        return heard or said_after or said_before or not name
    if said_after or (said_before and (capital or words >= _FEW_WORDS)):
        return True
    if follow[:1] in tuple("—–") and (heard or words >= _FEW_WORDS):  # “To tell the truth”—he paused—“no.”
        return True
    opens = not lead or lead[-1] in _SENTENCE_BEGINS_AFTER
    if opens and capital and text[quotation.begin] in "„»«‹›‚":  # „Ja“, sagte er: the comma is outside
        return bool(re.match(r",(?! ?[„»«‹›‚])", follow)) or words >= _SENTENCE or not has_sound(follow)
    return opens and capital and (words >= _SENTENCE or lead[-1:] == ":" or (not lead and not has_sound(follow)))


def _bound_speech(inner: str, lead: str, last: str, words: int, capital: bool, said_after: bool) -> bool:
    """Of a quotation right after a word, with nothing between: he cried “Stop!”, but: he read “The Raven.”"""
    if _NAMING.intersection(_words(lead)[-1:]):
        return False
    if (last in _LOUD and last and capital) or (last and capital and said_after):
        return True
    if (last and _says(_words(lead)[-2:])) or (capital and _says(_words(lead)[-1:])):
        return True
    return bool(last) and capital and words >= _PHRASE and not _is_title(inner)


def _is_title(text: str) -> bool:
    """Whether nearly all long words have a capital: The Adventure of the Speckled Band."""
    long = [word for word in _WORD.findall(text[:200]) if len(word) > 3]
    return sum(not word[0].islower() for word in long) > 0.7 * len(long)


def _same_sentence(follow: str) -> str:
    return re.split(r"[.!?…“„«]", follow, maxsplit=1)[0]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _says(words: list[str], *, after: bool = False) -> bool:
    return any(word in _VERBS or (after and word in _ONLY_AFTER) for word in words)

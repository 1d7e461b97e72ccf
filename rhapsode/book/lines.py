"""From chapters to lines: what is read in one go, and how long the silence after it is.

Knows sentences, lengths and pauses; knows no model and no spoken forms. Every character of a chapter's text lands in
exactly one line, in order. A sentence is a line, with these exceptions:
- a heading is a line whatever its length, so that it is never read in one breath with what follows;
- a sentence over the limit is cut, at the end of a sentence inside quotes, else of a clause, else at a space,
  else within the word, into pieces of similar length;
- a sentence under three words joins its neighbour in the paragraph, or where it is alone there the neighbouring
  paragraph: models babble after a single word. Scripts without spaces count characters instead of words;
- a segment without any letter or digit joins its neighbour; alone in its paragraph it is a line of its own;
- where a second voice was asked for, a line ends where the voice changes, and joins none of the other voice.
The title that the navigation gives a chapter is not read out: nearly every chapter begins with it as a heading,
and where one does not, the book's text is read as it stands.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rhapsode.book.clean import has_sound, unwrap
from rhapsode.book.dialogue import goes_on, split_dialogue
from rhapsode.book.sentences import ends_within, primary_language, split_sentences
from rhapsode.errors import UserError
from rhapsode.types import Block, Book, Line, Speaker

MAX_CHARS = 300
_LEAST_MAX_CHARS = 40  # below this a line is no longer speech
_FEW_WORDS = 3

# Seconds of silence after a line, on top of what the voice leaves by itself.
CLAUSE_PAUSE = 0.1  # within a sentence that was too long, or that two voices share
SENTENCE_PAUSE = 0.35
PARAGRAPH_PAUSE = 0.7
HEADING_PAUSE = 1.0
BREAK_PAUSE = 1.6
CHAPTER_PAUSE = 2.5

# Ends of pieces, best first. A mark counts where a space follows it, or where its script has no spaces.
_CLOSERS = "\"'”’»›)\\]」』）】"
_ENDS = (
    re.compile(rf"[;:—–,،؛][{_CLOSERS}]*(?= )|—(?=\w)|[；：，、]"),
    re.compile(r"(?= )"),
)
_SENTENCE_END = re.compile(rf"[.!?…。！？．][{_CLOSERS}]*$")
_SHORTEST_SHARE = 0.5  # of the piece's fair length: an earlier end is not taken
_GOES_ON = ",;—–，；"  # a paragraph that ends so is a line of verse or of a list: its pause is short
_JOINER = "\u200d"  # of emoji
_LONGEST_CLUSTER = 16  # characters that are looked at for the start of a letter with its marks
_TRAILERS = _JOINER + "\ufe0e\ufe0f"
_WIDE = ("W", "F")


@dataclass
class _Draft:
    """A line in the making: `paragraph` counts within the chapter, `joins` is false for headings and bare signs."""

    text: str
    pause_s: float
    paragraph: int
    section: int
    joins: bool = True
    speaker: Speaker = "narration"


def split_lines(book: Book, *, max_chars: int = MAX_CHARS, dialogue: bool = False) -> list[Line]:
    """All lines of a book in reading order, indexed from 0, each of at most `max_chars` characters.

    With `dialogue`, what is said inside quotation marks makes lines of its own, whose speaker is "dialogue".
    Raises UserError where `max_chars` is under 40.
    """
    if max_chars < _LEAST_MAX_CHARS:
        raise UserError(f"A line must be allowed at least {_LEAST_MAX_CHARS} characters, not {max_chars}.")
    language = primary_language(book.language)
    lines: list[Line] = []
    seen: Counter[tuple[Speaker, str]] = Counter()
    for chapter in book.chapters:
        drafts = _join_across(_drafts(chapter.blocks, language, max_chars, dialogue), max_chars)
        if drafts:
            drafts[-1].pause_s = CHAPTER_PAUSE
        for draft in drafts:
            who, text = draft.speaker, draft.text
            key = line_key(text, seen[who, text], who)
            lines.append(Line(len(lines), chapter.number, text, key, draft.pause_s, who))
            seen[who, text] += 1
    return lines


def line_key(text: str, before: int, speaker: Speaker = "narration") -> int:
    """63 bits of the text, who says it, and how many such lines stand before it in the book."""
    who = "" if speaker == "narration" else f"{speaker}\0"
    digest = hashlib.blake2b(f"{who}{before}\0{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _drafts(blocks: Iterable[Block], language: str, limit: int, dialogue: bool) -> list[_Draft]:
    drafts: list[_Draft] = []
    section = 0
    for number, block in enumerate(blocks):
        text = " ".join(unwrap(block.text).split())
        if block.kind == "break" and not text:
            if drafts:
                drafts[-1].pause_s = max(drafts[-1].pause_s, BREAK_PAUSE)
                section += 1
            continue
        if not text:
            continue
        if block.kind == "heading":
            section += 1
            pieces = cut_long(text, limit)
            parts = [_Draft(piece, CLAUSE_PAUSE, number, section, joins=False) for piece in pieces]
            parts[-1].pause_s = HEADING_PAUSE
        else:
            make = _shared_paragraph if dialogue else _paragraph
            parts = make(text, language, limit, number, section)
            parts[-1].pause_s = SENTENCE_PAUSE if text[-1] in _GOES_ON else PARAGRAPH_PAUSE
        drafts += parts
    return drafts


def _paragraph(text: str, language: str, limit: int, number: int, section: int) -> list[_Draft]:
    drafts: list[_Draft] = []
    for sentence in _join_within(split_sentences(text, language), limit):
        ends = ends_within(sentence, language) if len(sentence) > limit else []
        for piece in cut_long(sentence, limit, ends):
            pause_s = SENTENCE_PAUSE if _SENTENCE_END.search(piece[-8:]) else CLAUSE_PAUSE
            drafts.append(_Draft(piece, pause_s, number, section, joins=has_sound(piece)))
        drafts[-1].pause_s = SENTENCE_PAUSE
    return drafts


def _shared_paragraph(text: str, language: str, limit: int, number: int, section: int) -> list[_Draft]:
    """A paragraph in which two voices take turns."""
    drafts: list[_Draft] = []
    for speaker, stretch in split_dialogue(text):
        if drafts:
            drafts[-1].pause_s = CLAUSE_PAUSE if goes_on(drafts[-1].text, stretch) else SENTENCE_PAUSE
        for draft in _paragraph(stretch, language, limit, number, section):
            draft.speaker = speaker
            drafts.append(draft)
    return drafts


def _join_within(sentences: list[str], limit: int) -> list[str]:
    """Sentences with the short ones joined to the next, or else to the one before, and bare signs to the one before."""
    joined: list[str] = []
    open_end = False  # the last one is short and waits for the next
    for sentence in sentences:
        fits = bool(joined) and len(joined[-1]) + 1 + len(sentence) <= limit
        if fits and (open_end or not has_sound(sentence)):
            joined[-1] = _glue(joined[-1], sentence)
        else:
            joined.append(sentence)
        open_end = _is_short(joined[-1])
    if len(joined) > 1 and open_end and len(joined[-2]) + 1 + len(joined[-1]) <= limit:
        joined[-2:] = [_glue(joined[-2], joined[-1])]
    return joined


def _join_across(drafts: list[_Draft], limit: int) -> list[_Draft]:
    """A paragraph that is one short line joins the next paragraph of its section, or else the one before."""
    out: list[_Draft] = []
    for draft in drafts:
        if out and _may_join(out[-1], draft, limit) and _is_short(out[-1].text):
            draft.text = _glue(out.pop().text, draft.text)
        out.append(draft)
    back: list[_Draft] = []
    for draft in out:
        if back and _may_join(back[-1], draft, limit) and _is_short(draft.text):
            before = back.pop()
            draft.text = _glue(before.text, draft.text)
        back.append(draft)
    return back


def _may_join(first: _Draft, second: _Draft, limit: int) -> bool:
    return (
        first.joins
        and second.joins
        and first.speaker == second.speaker
        and first.section == second.section
        and first.paragraph != second.paragraph
        and len(first.text) + 1 + len(second.text) <= limit
    )


def _is_short(text: str) -> bool:
    """Under three words, or under three characters of a script that does not part its words."""
    count = 0
    for word in text.split():
        wide = sum(unicodedata.east_asian_width(char) in _WIDE for char in word if char.isalnum())
        count += wide or has_sound(word)
        if count >= _FEW_WORDS:
            return False
    return True


def _glue(first: str, second: str) -> str:
    wide = all(unicodedata.east_asian_width(char) in _WIDE for char in (first[-1], second[0]))
    return first + second if wide else f"{first} {second}"


def cut_long(text: str, limit: int, sentence_ends: Sequence[int] = ()) -> list[str]:
    """`text` in pieces of at most `limit` characters and similar length, none empty; [text] where it fits.

    `sentence_ends` are the places, ascending, where a sentence ends in it: they are taken first.
    """
    pieces: list[str] = []
    begin = 0
    while len(text) - begin > limit:
        left = len(text) - begin
        fair = left / -(-left // limit)
        inner = sentence_ends[bisect_right(sentence_ends, begin) : bisect_right(sentence_ends, begin + limit + 1)]
        end = begin + _best_end(text[begin : begin + limit + 1], limit, fair, [at - begin for at in inner])
        pieces.append(text[begin:end].strip())
        begin = end
    pieces.append(text[begin:].strip())
    return [piece for piece in pieces if piece]


def _best_end(window: str, limit: int, fair: float, sentence_ends: list[int]) -> int:
    """Where to end the piece that begins the window: at the best kind of end, there nearest to the fair length."""
    least = max(1, int(fair * _SHORTEST_SHARE))
    kinds = [[at - (window[at - 1] == " ") for at in sentence_ends]]
    kinds += [[match.end() for match in pattern.finditer(window)] for pattern in _ENDS]
    for kind in kinds:
        ends = [end for end in kind if least <= end <= limit]
        if ends:
            return min(ends, key=lambda end: abs(end - fair))
    space = window.rfind(" ", 1, limit + 1)
    if space > 0:
        return space
    wanted = end = min(limit, max(1, round(fair)))
    while _belongs_before(window[end], window[end - 1]) and end > max(1, wanted - _LONGEST_CLUSTER):
        end -= 1
    return end


def _belongs_before(char: str, before: str) -> bool:
    """Whether a character makes one letter or picture with the one before it."""
    return bool(unicodedata.combining(char)) or char in _TRAILERS or before == _JOINER

"""How far what was heard is from what was to be said, in words.

Knows English spelling: the same words in figures, in British or American letters, in one word or two, count as the
same. Knows nothing of sound. The counts are exact: the alignment is the cheapest there is.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from rhapsode.book.spoken import spoken

_MOST_JOINED = 3  # words on one side that may be one word on the other: 'none the less', 'nonetheless'

_CONTRACTIONS = (
    (re.compile(r"\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bshan't\b"), "shall not"),
    (re.compile(r"\blet's\b"), "let us"),
    (re.compile(r"\b(it|that|what|who|he|she|there|here|where|how)'s\b"), r"\1 is"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"\bi'm\b"), "i am"),
)
# Stems and endings that differ between British and American; both become the American.
_BRITISH = re.compile(
    r"^(?:(?P<our>arm|behavi|cand|clam|col|dem[ae]an|endeav|fav|flav|harb|hon|hum|lab|neighb|od|parl|ranc|rig|rum|sav"
    r"|splend|trem|vap|vig|val)our"
    r"|(?P<ise>agon|apolog|author|civil|colon|critic|emphas|fertil|mesmer|memor|modern|organ|real|recogn|scrutin|sympath"
    r"|symbol|util)is(?=e|i|a)"
    r"|(?P<re>cent|fib|lit|lust|met|sab|scept|sombr|spect|theat|kilomet|centimet)re"
    r"|(?P<ll>cance|counse|jewe|leve|marve|quarre|signa|trave|wool|mode)ll(?=e|i)"
    r"|(?P<ence>def|off|pret)ence)"
)
_AMERICAN = {"our": "or", "ise": "iz", "re": "er", "ll": "l", "ence": "ense"}
_SAME = {
    "grey": "gray", "greys": "grays", "greyhaired": "grayhaired", "plough": "plow", "ploughed": "plowed",
    "cheque": "check", "programme": "program", "programmes": "programs", "tyre": "tire", "tyres": "tires",
    "kerb": "curb", "mould": "mold", "moustache": "mustache", "pyjamas": "pajamas", "jewellery": "jewelry",
    "storey": "story", "licence": "license", "practise": "practice", "sceptical": "skeptical", "gaol": "jail",
    "ok": "okay", "o": "oh", "ax": "axe", "waggon": "wagon", "aeroplane": "airplane", "mum": "mom",
    "alright": "all right", "draught": "draft", "judgement": "judgment", "enquire": "inquire",
    "enquired": "inquired", "enquiry": "inquiry", "skilful": "skillful", "catalogue": "catalog",
    "dialogue": "dialog", "til": "till", "mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Errors:
    """Word errors of one line or of many together."""

    words: int = 0  # that were to be said
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0

    @property
    def total(self) -> int:
        return self.substitutions + self.insertions + self.deletions

    @property
    def rate(self) -> float:
        """Word error rate, 0 for none; above 1 where more was heard than was to be said."""
        return self.total / self.words if self.words else float(self.total > 0)

    def __add__(self, other: Errors) -> Errors:
        return Errors(
            self.words + other.words,
            self.substitutions + other.substitutions,
            self.insertions + other.insertions,
            self.deletions + other.deletions,
        )


def words_of(text: str) -> list[str]:
    """`text` as words to compare: spoken, lower case, no marks, one spelling."""
    plain = unicodedata.normalize("NFKC", spoken(text).replace("’", "'").replace("‘", "'")).lower()
    for pattern, full in _CONTRACTIONS:
        plain = pattern.sub(full, plain)
    plain = re.sub(r"(?<=\w)'(?=\w)", "", plain)
    found: list[str] = []
    for word in re.findall(r"[^\W_]+", plain):
        found += _one_spelling(word).split(" ")
    return found


def _one_spelling(word: str) -> str:
    if word in _SAME:
        return _SAME[word]
    match = _BRITISH.match(word)
    if not match:
        return word
    kind = match.lastgroup or ""
    return match[kind] + _AMERICAN[kind] + word[match.end() :]


def compare(said: str, heard: str) -> Errors:
    """The fewest word errors that turn `said` into `heard`; of equal ways the one with the most substitutions.

    Words that differ by spaces only ('every one', 'everyone') are no error.
    """
    wanted, found = words_of(said), words_of(heard)
    # best[i][j]: (errors, substitutions, insertions, deletions) for the first i and j words.
    best: list[list[tuple[int, int, int, int]]] = [[(0, 0, 0, 0)] * (len(found) + 1) for _ in range(len(wanted) + 1)]
    for i in range(len(wanted) + 1):
        for j in range(len(found) + 1):
            if i or j:
                best[i][j] = min(_ways(best, wanted, found, i, j), key=lambda way: (way[0], -way[1]))
    _, substitutions, insertions, deletions = best[-1][-1]
    return Errors(len(wanted), substitutions, insertions, deletions)


def _ways(
    best: list[list[tuple[int, int, int, int]]], wanted: list[str], found: list[str], i: int, j: int
) -> list[tuple[int, int, int, int]]:
    """All ways to come to i wanted and j found words."""
    ways = []
    if i and j:
        errors, substitutions, insertions, deletions = best[i - 1][j - 1]
        wrong = wanted[i - 1] != found[j - 1]
        ways.append((errors + wrong, substitutions + wrong, insertions, deletions))
    if i:
        errors, substitutions, insertions, deletions = best[i - 1][j]
        ways.append((errors + 1, substitutions, insertions, deletions + 1))
    if j:
        errors, substitutions, insertions, deletions = best[i][j - 1]
        ways.append((errors + 1, substitutions, insertions + 1, deletions))
    for back in range(1, min(_MOST_JOINED, i) + 1):
        for over in range(1, min(_MOST_JOINED, j) + 1):
            if back + over > 2 and "".join(wanted[i - back : i]) == "".join(found[j - over : j]):
                ways.append(best[i - back][j - over])
    return ways

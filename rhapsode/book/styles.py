"""Which elements a style sheet hides.

Knows rules whose selectors are a tag, classes, an id or these together, that say `display` or `visibility`, and which
of them wins. Any other selector, and a rule that applies only under a condition, hides nothing, but stands against the
hiding of what it may mean: in doubt a text is read. Knows nothing of boxes and sizes, and loads no file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rhapsode.book.clean import has_sound, one_line, some_of
from rhapsode.book.markup import Element, tag_of, text_of

MAX_SHEET = 1 << 20  # bytes or characters; a larger sheet is taken for none
_MAX_RULES = 2000  # in the sheets of a document, and
_MAX_OF_ONE = 50  # that share a name; where there are more, nothing is hidden
_MOST = 0.25  # of a document's letters: more is its text, and something else will show it
_SHOWN = 30  # characters of a part that was left out
_LONG = 300  # characters of a selector, and
_DEEP = 8  # braces around a rule, that no real sheet has

_NOISE = re.compile(
    r"""/\*.*?(?:\*/|\Z)|<!--|-->|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|url\([^)]*\)?""", re.S | re.I
)
_BRACE = re.compile(r"([{}])")
_HIDDEN = {"display": ("none",), "visibility": ("hidden", "collapse")}
# What is said of paper, of some readers and of fonts neither hides nor shows anything on a page.
_ELSEWHERE = re.compile(r"@media\s+(?:print|speech|amzn-\w+)\b[^,]*\Z|@(?:font-face|page\b|\S*keyframes)", re.I)
_COMPOUND = re.compile(r"(\*|[^\W\d][\w-]*)?((?:[.#][\w-]+)*)")
_NAME = re.compile(r"[.#][\w-]+")
_CONDITIONS = re.compile(r":[\w-]+(?:\([^)]*\))?|\[[^\]]*\]")
_COMBINATORS = re.compile(r"[\s>+~]+")
_PSEUDO_ELEMENT = re.compile(r"::|:(?:before|after|first-l)", re.I)
_NO_TEXT = {"head", "script", "style", "template", "noscript"}


class _Rule(NamedTuple):
    tag: str  # '' for any
    names: frozenset[str]  # '.class' and '#id', all of which an element must have
    doubtful: bool  # it may apply or not
    says: str  # display or visibility
    hides: bool
    weight: tuple[bool, int, int, bool]  # important, ids, classes, tag: the highest wins, of equals the last
    place: int = 0  # among all rules


def sheets_of(root: Element, fetch: Callable[[str], str | None]) -> list[str]:
    """The style sheets for the screen in a document; `fetch` gives the text of a linked one, None where it is not."""
    sheets: list[str | None] = []
    for element in root.iter():
        tag = tag_of(element)
        if tag not in {"style", "link"} or (element.get("media") or "all").strip().lower() not in {"all", "screen"}:
            continue
        if tag == "style":
            sheets.append(text_of(element))
        elif (element.get("rel") or "").lower().split() == ["stylesheet"]:
            sheets.append(fetch(element.get("href") or ""))
    return [sheet for sheet in sheets if sheet and len(sheet) <= MAX_SHEET]


def mark_hidden(top: Element, sheets: Iterable[str]) -> list[str]:
    """Gives the outermost elements that are hidden the attribute `hidden`; the first words of those that have any."""
    rules = _index([rule for sheet in sheets for rule in _read(sheet)])
    if not rules:
        return []
    found: list[Element] = []
    hidden = shown = 0
    stack = [top]
    while stack:
        element = stack.pop()
        if tag_of(element) in _NO_TEXT | {""}:
            continue
        if _is_hidden(element, rules):
            found.append(element)
            hidden += len(text_of(element).strip())
            continue
        shown += len((element.text or "").strip()) + sum(len((child.tail or "").strip()) for child in element)
        stack.extend(reversed(element))
    if hidden > _MOST * (hidden + shown):
        return []
    for element in found:
        element.set("hidden", "hidden")
    said = [one_line(text_of(element)) for element in found]
    return [text[:_SHOWN] for text in said if has_sound(text)]


def hidden_note(said: Sequence[str]) -> tuple[str, ...]:
    """What is told of parts that were left out."""
    return (f"Left out {len(said)} part(s) that the style sheet hides: {some_of(said)}.",) if said else ()


def _is_hidden(element: Element, rules: dict[str, list[_Rule]]) -> bool:
    tag, style = tag_of(element), (element.get("style") or "").lower()
    names = {f".{name}" for name in (element.get("class") or "").split()} | {f"#{element.get('id')}"}
    for says in _HIDDEN:
        if says in style:
            continue  # what the element says itself wins
        fitting = [
            rule
            for key in ("", tag, *names)
            for rule in rules.get(key, ())
            if rule.says == says and rule.tag in ("", tag) and rule.names <= names
        ]
        if any(rule.doubtful for rule in fitting):
            continue
        if fitting and max(fitting, key=lambda rule: (rule.weight, rule.place)).hides:
            return True
    return False


def _index(rules: list[_Rule]) -> dict[str, list[_Rule]]:
    """The rules by a name or the tag that an element must have for them; empty where none hides, or too many are."""
    if any(rule.says == "visibility" and not rule.hides for rule in rules):  # what is within may show again
        rules = [rule for rule in rules if rule.says != "visibility"]
    if not any(rule.hides for rule in rules) or len(rules) > _MAX_RULES:
        return {}
    found: dict[str, list[_Rule]] = defaultdict(list)
    for place, rule in enumerate(rules):
        found[min(rule.names, default=rule.tag)].append(rule._replace(place=place))
    return found if max(map(len, found.values())) <= _MAX_OF_ONE else {}


@lru_cache(maxsize=32)
def _read(sheet: str) -> tuple[_Rule, ...]:
    """All that a sheet says of display and visibility, in order."""
    rules: list[_Rule] = []
    around: list[str] = []
    parts = _BRACE.split(_NOISE.sub(" ", sheet))
    for text, brace in zip(parts[::2], parts[1::2], strict=False):
        if brace == "{":
            around.append(text.rpartition(";")[2].strip())
        elif around:
            selectors = around.pop()
            if len(around) <= _DEEP and not any(map(_ELSEWHERE.match, [selectors, *around])):
                rules += _rules(selectors, text, conditional=bool(around))
    return tuple(rules)


def _rules(selectors: str, declarations: str, conditional: bool) -> Iterator[_Rule]:
    for declaration in declarations.split(";"):
        says, _, value = declaration.lower().partition(":")
        value, important, _ = value.partition("!")
        says = says.strip()
        if says not in _HIDDEN:
            continue
        hides = value.strip() in _HIDDEN[says]
        for selector in selectors.split(","):
            if _PSEUDO_ELEMENT.search(selector):
                continue
            tag, names, certain = _meant(selector.strip())
            doubtful = conditional or not certain
            if hides and doubtful:
                continue
            ids = sum(name.startswith("#") for name in names)
            yield _Rule(tag, names, doubtful, says, hides, (bool(important), ids, len(names) - ids, bool(tag)))


def _meant(selector: str) -> tuple[str, frozenset[str], bool]:
    """Tag and names of the elements that a selector means, and whether it means all of them."""
    match = _COMPOUND.fullmatch(selector)
    certain = match is not None
    if not match and len(selector) <= _LONG:
        match = _COMPOUND.fullmatch(_COMBINATORS.split(_CONDITIONS.sub("", selector))[-1])
    if not match:
        return "", frozenset(), False
    return (match[1] or "").lower().replace("*", ""), frozenset(_NAME.findall(match[2])), certain

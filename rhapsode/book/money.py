"""Amounts of money as English words: $4.50, £5 10s. 6d., 100€, $5-10 million.

Knows currencies, and that a range has its unit once; how a number is said it asks `figures`, whose rules come after.
"""

from __future__ import annotations

import re

from rhapsode.book.figures import DASH, END, N, Place, Rule, counted, decimal, ends_here, many, whole_number
from rhapsode.book.numerals import cardinal

_SCALES = {"k": "thousand", "m": "million", "bn": "billion"}
_CURRENCIES = {
    "$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent"), "¥": ("yen", ""), "₹": ("rupee", "paisa"),
}  # fmt: skip
_SCALE = r"(?P<scale> (?:hundred|thousand|million|billion|trillion)\b|(?:k|m|bn)\b)?"


def _money(place: Place) -> str:
    unit, small = _CURRENCIES[place["sign"]]
    whole, decimals, scale = place["whole"], place["decimals"], place["scale"].strip()
    if scale:
        return f"{decimal(whole, decimals)} {_SCALES.get(scale, scale)} {many(unit)}"
    if len(decimals) != 2 or not small:
        return counted(decimal(whole, decimals), unit)
    parts = []
    if int(whole.replace(",", "")) or not int(decimals):
        parts.append(counted(whole_number(whole), unit))
    if int(decimals):
        parts.append(counted(cardinal(decimals), small))
    return " and ".join(parts)


def _money_range(place: Place) -> str:
    """$5-10 million, £1.50–£2: the first amount has its unit said only where it has small change of its own."""
    if len(place["from_decimals"]) != 2:
        return f"{decimal(place['from'], place['from_decimals'])} to {_money(place)}"
    unit, small = _CURRENCIES[place["sign"]]
    first = counted(whole_number(place["from"]), unit)
    if small and int(place["from_decimals"]):
        first += f" and {counted(cardinal(place['from_decimals']), small)}"
    return f"{first} to {_money(place)}"


def _shillings(place: Place) -> str:
    """£5 10s. 6d., and the same without pounds."""
    parts = [counted(whole_number(place["pounds"]), "pound")] if place["pounds"] else []
    if place["shillings"]:
        parts.append(counted(whole_number(place["shillings"]), "shilling"))
    if place["pence"]:
        parts.append(counted(whole_number(place["pence"]), "penny"))
    dotted = place.match[0].endswith(".")
    if len(parts) < 2 and (not dotted or place["shillings"].endswith("0")):  # the 80s.
        return ""
    dot = "." if dotted and ends_here(place.after) else ""
    if len(parts) < 2:
        return parts[0] + dot
    return " ".join(parts[:-1]) + f" and {parts[-1]}{dot}"


RULES: tuple[Rule, ...] = (
    (
        re.compile(
            r"(?:£(?P<pounds>[0-9]{1,9})[ ,]{1,2})?(?P<shillings>[0-9]{1,3})s\b\.?(?:,? (?P<pence>[0-9]{1,2})d\b\.?)?"
        ),
        _shillings,
    ),
    (
        re.compile(
            rf"(?P<sign>[$£€¥₹]) ?(?P<from>{N}){END}(?:\.(?P<from_decimals>[0-9]{{1,9}}){END})?{DASH}(?P=sign)?"
            rf"(?P<whole>{N}){END}(?:\.(?P<decimals>[0-9]{{1,9}}){END})?{_SCALE}"
        ),
        _money_range,
    ),
    (
        re.compile(rf"(?P<sign>[$£€¥₹]) ?(?P<whole>{N}){END}(?:\.(?P<decimals>[0-9]{{1,9}}){END})?{_SCALE}"),
        _money,
    ),
    (
        re.compile(
            rf"(?P<whole>{N}){END}(?:[.,](?P<decimals>[0-9]{{2}}){END})? ?(?P<sign>[£€¥₹])(?! ?\.?[0-9])(?P<scale>)"
        ),
        _money,
    ),
)

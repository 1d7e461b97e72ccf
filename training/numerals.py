"""Numbers as they are said in sentences that are made up: counts, years, times of day, sums of money, decimals.

Knows whole numbers from 0 to 999,999. The words are those in which the product says figures, so that the voice has
learned what it will be given.
"""

from __future__ import annotations

from rhapsode.book import numerals


def cardinal(number: int, *, joined: bool = True) -> str:
    """'two thousand one hundred and five'; `joined` writes the 'and' and the hyphens."""
    words = numerals.cardinal(str(number))
    return words if joined else words.replace(" and ", " ").replace("-", " ")


def ordinal(number: int) -> str:
    """'twenty-first'."""
    return numerals.ordinal(str(number))


def year(number: int) -> str:
    """'eighteen forty-two', 'nineteen hundred', 'nineteen oh five', 'two thousand and one'; from 1000 to 9999."""
    return numerals.year(str(number))


def clock(hour: int, minute: int) -> str:
    """'a quarter past nine', 'twenty to four', 'six o’clock', 'eight oh seven' for what has no round name."""
    following = cardinal(hour % 12 + 1)
    if not minute:
        return f"{cardinal(hour)} o’clock"
    if minute == 15:
        return f"a quarter past {cardinal(hour)}"
    if minute == 30:
        return f"half past {cardinal(hour)}"
    if minute == 45:
        return f"a quarter to {following}"
    if minute % 5 == 0:
        return f"{cardinal(minute)} past {cardinal(hour)}" if minute < 30 else f"{cardinal(60 - minute)} to {following}"
    return f"{cardinal(hour)} {numerals.minutes(f'{minute:02}')}"


def money(whole: int, parts: int = 0, *, names: tuple[str, str] = ("dollar", "cent")) -> str:
    """'twenty-three dollars and five cents'."""
    out = f"{cardinal(whole)} {names[0]}{'s' * (whole != 1)}"
    return f"{out} and {cardinal(parts)} {names[1]}{'s' * (parts != 1)}" if parts else out


def decimal(whole: int, digits: str) -> str:
    """'three point one four'."""
    return f"{cardinal(whole)} point {numerals.one_by_one(digits)}"

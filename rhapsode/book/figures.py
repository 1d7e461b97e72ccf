"""What begins with a figure as English words: dates, times, ranges, measures, plain numbers; money has its own file.

Knows how English writes such things down and how it says them; knows the words next to a number, no more.
Every pattern has a bounded length, so that the time is linear in the text; the last rule takes any digits that are
left, so that none remain. A rule is tried at one place of the text and gives what is said, or "" for "not mine".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rhapsode.book.numerals import (
    cardinal,
    fraction,
    minutes,
    one_by_one,
    ordinal,
    plural,
    year,
)

_MONTH_NAMES = "January February March April May June July August September October November December"
_MONTHS = _MONTH_NAMES.split()
_SHORT_MONTHS = {name[:3]: name for name in _MONTHS} | {"Sept": "September"}
MONTH = rf"(?:{'|'.join(_MONTHS)}|(?:{'|'.join(sorted(_SHORT_MONTHS, key=len, reverse=True))})\b\.?)"
N = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})"  # a whole number, perhaps in groups
END = r"(?![0-9])"
DASH = "[–-]"
_IRREGULAR = {"penny": "pence", "foot": "feet", "inch": "inches", "yen": "yen", "paisa": "paise", "hertz": "hertz"}
_PER = " per "
_UNITS = {
    "km/h": "kilometre per hour", "mph": "mile per hour", "m/s": "metre per second", "km": "kilometre",
    "cm": "centimetre", "mm": "millimetre", "kg": "kilogram", "mg": "milligram", "ml": "millilitre", "lbs": "pound",
    "lb": "pound", "oz": "ounce", "ft": "foot", "yds": "yard", "yd": "yard", "mi": "mile", "cwt": "hundredweight",
    "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "Hz": "hertz", "kW": "kilowatt", "KB": "kilobyte",
    "kB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "hrs": "hour", "hr": "hour",
    "mins": "minute", "min": "minute", "secs": "second", "sec": "second", "ms": "millisecond",
    "sq ft": "square foot", "sq. ft": "square foot", "m": "metre", "g": "gram", "l": "litre",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "′": "foot", "″": "inch", "¢": "cent",
}  # fmt: skip
_ARC = {"′": "minute", "″": "second"}  # after degrees
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_COUNTED = (  # after these a four-digit number is an amount and no year
    "miles|feet|yards|inches|acres|tons|pounds|dollars|francs|guineas|crowns|ducats|people|men|women|children|souls|soldiers"
    "|horses|ships|books|pages|words|times|years|days|hours|minutes|degrees|percent|per cent|metres|meters|kilometres"
)
_AN_AMOUNT = re.compile(rf" (?:{_COUNTED})\b")
VULGAR = {
    "½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
    "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8",
}  # fmt: skip
_VULGAR = "".join(VULGAR)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule is tried: the match, what has been said before it, and what comes after it as it is written."""

    match: re.Match[str]
    said: str  # the end of what has been said so far
    after: str  # the beginning of what follows the match

    def __getitem__(self, group: int | str) -> str:
        return self.match[group] or ""


Rule = tuple[re.Pattern[str], Callable[[Place], str]]


def ends_here(after: str) -> bool:
    """Whether a sentence ends before `after`: nothing follows but closing marks, or a capital does."""
    return re.match(r"[\"'”’)\]]{0,3}(?:\s*$| +[\"'“‘(]{0,2}[A-Z])", after) is not None


def whole_number(digits: str) -> str:
    """A whole number that is an amount."""
    bare = digits.replace(",", "").replace(" ", "")
    return one_by_one(bare) if len(bare) > 1 and bare[0] == "0" else cardinal(bare)


def decimal(whole: str, decimals: str) -> str:
    said = whole_number(whole) if whole else ""
    return f"{said} point {one_by_one(decimals)}".strip() if decimals else said


def many(name: str) -> str:
    """The plural of a unit, whose head stands before 'per', 'Celsius' or 'Fahrenheit'."""
    head, per, rest = name.partition(_PER)
    words = head.split(" ")
    at = 0 if words[-1] in ("Celsius", "Fahrenheit") else -1
    words[at] = _IRREGULAR.get(words[at]) or (words[at] if words[at].endswith(("hertz", "weight")) else words[at] + "s")
    return " ".join(words) + per + rest


def counted(amount: str, name: str) -> str:
    return f"{amount} {name if amount == 'one' else many(name)}"


# ---------------------------------------------------------------------- dates and times


def _month(written: str) -> str:
    return _SHORT_MONTHS.get(written.rstrip("."), written)


def _day_month(place: Place) -> str:
    """12 May 1842, 12th May, 12th of May."""
    if not 1 <= int(place["day"]) <= 31:
        return ""
    article = "" if re.search(r"\bthe $", place.said, re.I) else "the "
    date = f"{article}{ordinal(place['day'])} of {_month(place['month'])}"
    return date + (f"{place['comma'] or ','} {_year(place['year'])}" if place["year"] else "")


def month_day(place: Place) -> str:
    """May 12, 1842 and May 12; also Oct. 1842, where there is no day."""
    month = _month(place["month"])
    if place["only_year"]:
        return f"{month} {_year(place['only_year'])}"
    if not 1 <= int(place["day"]) <= 31:
        return ""
    date = f"{month} {ordinal(place['day'])}"
    return date + (f", {_year(place['year'])}" if place["year"] else "")


MONTH_DAY = re.compile(
    rf"(?P<month>{MONTH}) (?:(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th|d)?(?![0-9:]|[.,/–-][0-9]|\w)"
    rf"(?:,? (?P<year>1[0-9]{{3}}|20[0-9]{{2}}){END}(?![.,-][0-9]))?|(?P<only_year>1[0-9]{{3}}|20[0-9]{{2}}){END})"
)


def _year(digits: str) -> str:
    return year(digits) if len(digits) == 4 and digits[0] != "0" else whole_number(digits)


def _iso_date(place: Place) -> str:
    month, day = int(place["month"]), int(place["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return ""
    return f"{_MONTHS[month - 1]} {ordinal(place['day'])}, {_year(place['year'])}"


def _clock(place: Place) -> str:
    """9:15, 9.15 a.m., 9 a.m.; chapter and verse such as 3:16 sound the same."""
    hour, minute, half = place["hour"], place["minute"], place["half"]
    if int(hour) > 24:
        return ""
    said = cardinal(hour)
    if minute and int(minute):
        said += " " + minutes(minute)
    elif minute and not half:
        said += " o'clock" if 0 < int(hour) < 13 else " hundred"
    if not half:
        return said
    dot = "." if half.endswith(".") and ends_here(place.after) else ""
    return f"{said} {half[0].upper()} M{dot}"


def _verse(place: Place) -> str:
    """3:1, 119:105, 1:02:05, with a range of verses after it; also ratios."""
    parts = place.match["parts"].split(":")
    said = " ".join([cardinal(parts[0]), *map(_after_colon, parts[1:])])
    return said + (" to " + " ".join(map(cardinal, place["to"].split(":"))) if place["to"] else "")


def _after_colon(digits: str) -> str:
    return minutes(digits) if len(digits) == 2 else whole_number(digits)


def _several(place: Place) -> str:
    """The 1840s, the 1840's, two 747s; but 1842's is of that year."""
    said = number(place["digits"], place.said, place.after)
    return f"{said}{place['mark']}s" if place["mark"] and not place["digits"].endswith("0") else plural(said)


# ---------------------------------------------------------------------- ranges, strings of digits, fractions


def _phone(place: Place) -> str:
    """Groups of digits that are no numbers: 555-1234, 020 7946 0958, 0-306-40615-2."""
    groups = re.findall("[0-9]+", place.match[0])
    if len(groups) == 2 and groups[0] != "555" and not re.search(r"(?i)\b(?:call|dial|phone|tele?)\W", place.said):
        return ""
    return ", ".join(map(one_by_one, groups))


def _range(place: Place) -> str:
    first, second = place["from"], place["to"]
    low, high = int(first.replace(",", "")), int(second.replace(",", ""))
    if len(first) == 4 and len(second) == 2 and first[0] in "12" and int(first[2:]) < high:
        return f"{year(first)} to {minutes(second)}"
    goes_on = 2 <= len(second) < len(first) and first.isdigit() and int(first[-len(second) :]) < high  # 367-77
    between = " to " if low < high or goes_on or "–" in place.match[0] else " "
    return between.join((number(first, place.said, place.after), number(second, place.said, place.after)))


def _fraction(place: Place) -> str:
    whole, above, below = place["whole"], place["above"], place["below"]
    if (above, below) in (("24", "7"), ("9", "11")) and not whole:
        return f"{cardinal(above)} {cardinal(below)}"
    if int(below) < 2 or int(above) < 1:
        return "" if whole else f"{whole_number(above)} over {whole_number(below)}"
    if int(above) >= int(below) or int(below) > 100:
        return "" if whole else f"{whole_number(above)} over {whole_number(below)}"
    said = fraction(above, below)
    if not whole:
        return said
    return f"{whole_number(whole)} and " + re.sub("^one ", "an " if int(below) in (8, 11, 18) else "a ", said)


def _slashes(place: Place) -> str:
    return " ".join(number(part, "", "") for part in place.match[0].split("/"))


def _vulgar(place: Place) -> str:
    above, below = VULGAR[place["sign"]].split("/")
    whole = place["whole"]
    said = fraction(above, below)
    if whole:
        said = f"{whole_number(whole)} and " + re.sub("^one ", "an " if below == "8" else "a ", said)
    unit = place["unit"].lstrip(" -")
    return f"{said} {many(_UNITS[unit])}" if unit else said


def _version(place: Place) -> str:
    return " point ".join(whole_number(part) for part in place.match[0].split("."))


# ---------------------------------------------------------------------- measures and plain numbers


def _measure(place: Place) -> str:
    said, unit = _amount(place), place["unit"]
    if unit == "%":
        return f"{said} percent"
    if unit in _ARC and re.search(r"\b(?:degree|minute)s? ?$", place.said):
        return counted(said, _ARC[unit])
    power = {"²": "square ", "³": "cubic "}.get(place["power"], "")
    if power and unit not in ("m", "km", "cm", "mm", "ft", "mi", "yd"):
        return ""
    dot = "." if place["dot"] and ends_here(place.after) else ""
    return counted(said, power + _UNITS[unit]) + dot


def _amount(place: Place) -> str:
    if place["from"]:
        return f"{whole_number(place['from'])} to {decimal(place['whole'], place['decimals'])}"
    return decimal(place["whole"], place["decimals"])


def _height(place: Place) -> str:
    return f"{counted(whole_number(place['feet']), 'foot')} {counted(whole_number(place['inches']), 'inch')}"


def _ordinal(place: Place) -> str:
    return ordinal(place["digits"].replace(",", ""))


def _old_ordinal(place: Place) -> str:
    """The 2d of the month, his 3d regiment, as it was printed once; 3d. is threepence."""
    return _ordinal(place) if re.search(r"(?i)\b(?:the|his|her|their|our|on|a) $", place.said) else ""


def _point(place: Place) -> str:
    return decimal(place["whole"], place["decimals"])


def _grouped(place: Place) -> str:
    return whole_number(place.match[0])


def _digits(place: Place) -> str:
    return number(place.match[0], place.said, place.after)


def number(digits: str, said: str, after: str) -> str:
    """A bare number between what was said and what follows: a year, an amount, or a string of digits."""
    if "," in digits:
        return whole_number(digits)
    if len(digits) > 1 and digits[0] == "0":
        # "Chapter 01" counts; 007 is a name.
        heading = len(digits) == 2 and (not said.strip() and not after.strip(" .") or _announces(said))
        return cardinal(digits) if heading else one_by_one(digits)
    if len(digits) == 4 and not _AN_AMOUNT.match(after):
        value = int(digits)
        if 1100 <= value <= 2099 or (value < 1100 and re.search(r"(?i)\b(?:in|year|since|until|a\.?d\.?) $", said)):
            return year(digits)
    if len(digits) >= 7 and not digits.endswith("000"):
        return one_by_one(digits)
    return cardinal(digits)


def _announces(said: str) -> bool:
    return re.search(r"(?i)\b(?:chapter|part|book|volume|act|scene|section|lesson|day|number) $", said) is not None


_AHEAD = r"(?![\w])"
_HALF = r"(?P<half>[ap]\.? ?m\b\.?|[AP]\.? ?M\b\.?)"

RULES: tuple[Rule, ...] = (
    (re.compile(rf"(?P<year>[0-9]{{4}})-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}}){END}(?!-)"), _iso_date),
    (
        re.compile(
            rf"(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th|d)? (?:of )?(?P<month>{MONTH})(?!\w)"
            rf"(?:(?P<comma>,?) (?P<year>1[0-9]{{3}}|20[0-9]{{2}}){END})?"
        ),
        _day_month,
    ),
    (re.compile(rf"(?P<hour>[0-9]{{1,2}})(?:[:.](?P<minute>[0-5][0-9]))? ?{_HALF}(?!\w)"), _clock),
    (re.compile(rf"(?P<hour>[0-9]{{1,2}}):(?P<minute>[0-5][0-9])(?P<half>){END}(?![:\w]|[–-][0-9])"), _clock),
    (
        re.compile(
            rf"(?P<parts>[0-9]{{1,4}}(?::[0-9]{{1,4}}){{1,3}}){END}(?:[–-](?P<to>[0-9]{{1,3}}(?::[0-9]{{2}})?){END})?"
        ),
        _verse,
    ),
    (re.compile(r"(?P<digits>[0-9]{1,4})(?P<mark>['’]?)s\b"), _several),
    (re.compile(rf"[0-9]{{1,5}}(?:-[0-9]{{1,7}}){{2,6}}{END}|0[0-9]{{2,4}}(?: [0-9]{{3,4}}){{1,3}}{END}"), _phone),
    (re.compile(rf"[0-9]{{3}}-[0-9]{{4}}{END}(?!-)"), _phone),
    (re.compile(rf"(?P<feet>[0-9])['’′] ?(?P<inches>[0-9]{{1,2}})[\"”″]{_AHEAD}"), _height),
    (
        re.compile(
            rf"(?:(?P<from>{N}){END}{DASH})?(?P<whole>{N}){END}(?:\.(?P<decimals>[0-9]{{1,15}}){END})?"
            rf"[ -]?(?P<unit>[%°′″¢](?![CF]\b)|(?:{_UNIT})(?=[²³]?(?!\w)))(?P<power>[²³]?)(?P<dot>(?<=[a-z])\.)?"
        ),
        _measure,
    ),
    (re.compile(rf"(?P<digits>{N})(?:st|nd|rd|th|ST|ND|RD|TH|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)\b"), _ordinal),
    (re.compile(r"(?P<digits>(?:[0-9]?[02-9])?[23])d(?![\w.])"), _old_ordinal),
    (re.compile(rf"(?:(?P<whole>[0-9]{{1,9}}) ?)?(?P<sign>[{_VULGAR}])(?P<unit>[ -]?(?:{_UNIT})(?!\w))?"), _vulgar),
    (re.compile(rf"[0-9]{{1,4}}(?:/[0-9]{{1,4}}){{2,4}}{END}"), _slashes),
    (
        re.compile(rf"(?:(?P<whole>[0-9]{{1,4}}) )?(?P<above>[0-9]{{1,4}})[/⁄](?P<below>[0-9]{{1,4}}){END}"),
        _fraction,
    ),
    (re.compile(rf"[0-9]{{1,5}}(?:\.[0-9]{{1,5}}){{2,6}}{END}"), _version),
    (re.compile(rf"(?P<from>{N}){END}{DASH}(?P<to>{N}){END}(?!\.[0-9])"), _range),
    (re.compile(rf"(?P<whole>(?:{N})?)\.(?P<decimals>[0-9]{{1,30}}){END}"), _point),
    (re.compile(rf"[0-9]{{1,3}}(?:,[0-9]{{3}}){{1,5}}{END}(?!,[0-9]{{3}})"), _grouped),
    (re.compile(rf"[0-9]{{1,3}}(?: 000){{1,4}}{END}"), _grouped),
    (re.compile(r"[0-9]+"), _digits),
)
BEGINNING = rf"[0-9$£€¥₹{_VULGAR}]|(?<![\w.])\.(?=[0-9])"  # of a place that is worth a look

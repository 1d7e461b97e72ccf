"""The frames of the sentences of templates.py, written for it. A frame that stands twice is twice as likely."""

_STATEMENTS = """
{subject} {did}.
{subject} {did}.
{subject} {did} {when}.
{subject} {did}, {linker} {subject} {did}.
{subject} {did}, {linker} {subject} {did}.
{opener}, {subject} {did}.
{opener}, {subject} {did}, {linker} {subject} {did}.
{opener}, {subject} {did}; {subject} {did}.
{subject} {did}; {subject} {did}.
{subject} {did} — {subject} {did}.
{subject} {did}—and {subject} {did}.
{subject} {did}: {subject} {did}.
{subject} {did} ({subject} {did}), {linker} {subject} {did}.
{subject} {did}, {subject} {did}, and {subject} {did}.
{subject}, who {did}, {did}.
{person}, the {job} from {city}, {did}.
{person} and {person} {did} {when}.
{person}’s {thing} was {degree} {adj}.
The {adj} {thing} was {degree} {adj}, {linker} the {things} were {adj}.
There was a {adj} {thing} {at}.
There were {count} {things} {at}, and a {adj} {animal}.
It was {time}, and {subject} {did}.
It was a {adj}, {adj} {season} {when}, {linker} {subject} {did}.
When {subject} {did}, {subject} {did}.
If {subject} {did}, {subject} would {do}.
While {person} was {doing}, {person} {did}.
Although {subject} {did}, {subject} {did} {adv}.
{person} was {doing} when the {thing} {intrans}.
{doing} is {adj}, but {doing} is {degree} {adj}.
Not only {person} but also {person} {did}.
The more {subject} {did}, the less {subject} {did}.
{subject} {did} … and then {subject} {did}.
{subject} {did}... but {subject} {did}.
{adv}, {adv}, {subject} {did}.
{subject} {did} {adv}, {adv}, almost {adv}.
Nobody knew why {subject} {did}.
It is {adv} {adj} to {do} {when}.
{person} told {person} that {subject} {did}.
{person} has been {doing} since {clock}.
{person} says {subject} will {do} on {weekday}.
I’ll {do} if you’ll {do}.
We’ve been {doing}, and they’re still {doing}.
You shouldn’t {do}; it isn’t {adj}.
They’d rather {do} than {do}.
She can’t {do}, and he won’t {do}.
"""

_TALK = """
“{please},” {tag}.
“{please}!” {tag}.
“{please},” {tag}. “{please}.”
“{oh}, {subject} {did},” {tag}.
“{oh},” {tag}, “{subject} {did}.”
“{oh}!” {tag}. “{subject} {did}!”
“{oh}…” {tag}. “{subject} {did}…”
“Did {subject} really {do}?” {tag}.
“Why didn’t you {do}?” {tag}.
“Where is the {thing}?” {tag}.
“{hello}, {name},” {tag}.
“{hello}, {title} {surname}!” {tag}.
‘{oh},’ {tag}, ‘{subject} {did}.’
"{please}," {tag}.
"{oh}," {tag}. "{subject} {did}."
'{please}!' {tag}.
“I think—” {tag}, “that {subject} {did}.”
“I don’t know,” {tag}. “Ask the {job}.”
“{subject} {did},” {tag}, {doing}.
“You said, ‘{please},’ and I did,” {tag}.
{person} {said}, “{subject} {did}.”
{person} {said} that {subject} {did}.
{tag}: “{please}.”
“What a {adj} {thing}!” {tag}.
“How {adj} you are, {name}!”
“{oh}, {oh},” {tag}.
"""

_QUESTIONS = """
Did {subject} {do}?
Did {subject} {do} {when}?
Where did {subject} {do}?
When will {subject} {do}?
Why would {subject} {do}?
Who {trans} the {thing}?
Who {did}?
What is the {thing} for?
What do you know about {stuff}?
What happened {at} {when}?
How many {things} did {subject} {do}?
How much is the {adj} {thing}?
How far is it from {city} to {city}?
Can you {do}?
Could you {do}, {name}?
Would you like some {food}?
Would you rather {do} or {do}?
Have you ever {seen} a {adj} {thing}?
Is the {thing} {adj} or {adj}?
Isn’t it {adj}?
{subject} {did}, didn’t they?
You’re {feel}, aren’t you?
Do you take {food} with your {food}?
Which {thing} do you prefer: the {adj} one or the {adj} one?
Whose {thing} is this?
May I {do}?
Shall we {do}?
Why not {do}?
"""

_SHORT = """
{oh}.
{oh}!
{oh}?
{hello}!
{hello}.
{please}.
{please}!
{name}!
{name}?
{adv}.
{adj}.
The {thing}.
A {adj} {thing}.
{thing}.
{number}.
{oh}, {oh}.
What a {thing}!
How {adj}!
{at}.
{when}.
{weekday}.
{city}, {country}.
{word}.
{word} {word}.
{word}, {word}.
"""

_LISTS = """
{food}, {food}, and {food}.
{food}, {food}, {food} and {food}.
We need {food}, {food}, {food}, {food} and a {thing}.
She bought {count} {things}, {count} {things}, and {number} {things}.
The {job}, the {job}, the {job}, and the {animal} {intrans}.
{city}, {city}, {city}, and {city} are {adj} cities.
{weekday}, {weekday}, {weekday}: it made no difference.
{adj}, {adj}, {adj}: that is the {thing}.
In the box were a {thing}, a {thing}, a {adj} {thing}, and {count} {things}.
First, {please}; second, {please}; third, {please}.
{name}, {name}, {name}, and {name} went to {place}.
{word}, {word}, {word}, {word}, {word}.
{word}; {word}; {word}.
{word} {word} {word} {word} {word} {word}.
"""

_FIGURES = """
In {year}, {person} {did}.
From {year} to {year}, {person} lived in {city}.
{person} was born in {city} on the {ordinal} of {month}, {year}.
On {month} {ordinal}, {year}, {subject} {did}.
The train to {city} leaves at {clock}.
The train leaves at {clock} and arrives at {clock}.
It is {time}.
It costs {money}.
The {thing} cost {money}, and the {things} {money}.
{person} paid {money} for a {adj} {thing}.
{person} owes {person} {money}.
{science} is {number} {unit}.
{science} rose by {percent} in {year}.
{science} was {decimal} {unit}.
{science} fell from {number} to {number} {unit} between {year} and {year}.
About {percent} of the {people} {intrans}.
Page {number}, line {number}.
Room {room}, on the {rank} floor.
She won the {rank} prize {when}.
{number} plus {number} makes {number}.
The {ordinal} of {month} is a {weekday}.
There are {number} {things} and {number} {people} {at}.
Nearly {number} {people} {did}.
He scored {number} points in {number} games.
Half of the {people}, two thirds of the {people}, and three quarters of the {things} were {adj}.
Call {room} {room} {room} and ask for {person}.
The ratio was {decimal} to one.
{person} is {number} years old.
It was the {rank} {thing} that {person} {trans}.
{abbr} {did} {when}.
A report from {abbr} says that {subject} {did}.
{title} and {title} {surname} {did}.
{title} {surname} of {city} and {title} {surname} of {city} {did}.
"""

_LONG = """
{opener}, {subject} {did}, {linker} {subject} {did}, and {subject}, who {did}, {did} {when}.
When {subject} {did} {when}, {subject} {did}, {linker} {subject} {did}; nevertheless, {subject} {did}.
{subject} {did}, {linker} {subject} {did}, and nobody knew whether {subject} would {do} or {do}.
{opener}, {subject} {did}; {opener}, {subject} {did}; and {opener}, {subject} {did}.
{person}, who {did} {when}, told {person} that {subject} {did}, {linker} {subject} {did}.
{subject} {did}. {subject} {did}. {subject} {did}, {linker} {subject} {did}.
“{subject} {did},” {tag}. “{subject} {did}, {linker} {subject} {did}. {please}!”
“{oh}, {subject} {did}! Did {subject} {do}?” {tag}.
There was a {adj} {thing} {at}, a {adj}, {adj} {thing} that {person} {trans} {when}, {linker} {subject} {did}.
{subject} {did} {when}. It was {time}. {subject} {did}.
{please}. {please}, and {please}. {oh}, {please}.
Why did {subject} {do}? Because {subject} {did}, and because {subject} {did}.
"""

_HEADINGS = """
Chapter {chapter}.
Chapter {chapter}
The {rank} Chapter
Chapter {chapter}: The {headadj} {headnoun}
The {headadj} {headnoun}
The {headnoun}
The {headnoun} of {city}
The {headnoun} and the {headnoun}
In Which {person} {did}
Part {count}
Part {count}: {headadj} {headnoun}s
Book {count}. The {headnoun}.
A {headadj} {headnoun}
Of {things} and {things}
{name}
{name} and {name}
{city}, {year}
Appendix {count}
Preface
Introduction
Epilogue
Contents
Conclusion
"""


def _lines(block: str) -> list[str]:
    return [line.strip() for line in block.splitlines() if line.strip()]


HEADINGS = _lines(_HEADINGS)
SHORT = _lines(_SHORT)
SENTENCES = (
    2 * _lines(_STATEMENTS) + 2 * _lines(_TALK) + _lines(_QUESTIONS) + _lines(_LISTS) + _lines(_FIGURES)
    + 3 * _lines(_LONG)
)  # fmt: skip

"""How books in the languages that are read call their parts and chapters, and the numbers that go with them.

Data alone: what makes a heading of a word is in `announced.py`, where accents and case do not matter. Words are
separated by spaces; headings that need no number by commas, since some are more than one word.
"""

from __future__ import annotations

from typing import NamedTuple


class HeadingWords(NamedTuple):
    """The words of one language that writes with spaces and capitals."""

    parts: str
    chapters: str
    alone: str  # headings that need no number
    cardinals: str = ""  # only after the word: 'Livre deux'; 'Une lettre' is no heading
    ordinals: str = ""  # after it or before: 'Erstes Kapitel', 'Capítulo primero'
    endings: str = ""  # one of which each ordinal takes
    suffixes: str = ""  # of a number in figures, which it needs before the word: '1. Kapitel', 'IIe partie'
    links: str = ""  # between the pieces of a number: 'vingt et un'
    articles: str = ""


LANGUAGES = (
    HeadingWords(  # English
        parts="part book volume",
        chapters="chapter chap. section act scene canto stave letter lecture",
        alone="prologue, epilogue, preface, foreword, introduction, afterword, interlude, postscript, conclusion, "
        "acknowledgements, acknowledgments, dedication, appendix",
        cardinals="one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred",
        ordinals="first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
        "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth fortieth last final",
        links="and",
        articles="the",
        suffixes="st nd rd th",
    ),
    HeadingWords(  # German
        parts="teil buch band",
        chapters="kapitel kap. abschnitt akt aufzug szene auftritt gesang brief vorlesung",
        alone="prolog, epilog, vorwort, nachwort, einleitung, einführung, vorrede, vorbemerkung, vorspiel, "
        "zwischenspiel, nachspiel, widmung, danksagung, anhang, schlusswort",
        cardinals="ein eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn "
        "sechzehn siebzehn achtzehn neunzehn zwanzig dreißig dreissig vierzig fünfzig sechzig siebzig achtzig "
        "neunzig hundert",
        ordinals="erst zweit dritt viert fünft sechst siebent siebt acht neunt zehnt elft zwölft dreizehnt vierzehnt "
        "fünfzehnt sechzehnt siebzehnt achtzehnt neunzehnt zwanzigst dreißigst dreissigst vierzigst fünfzigst "
        "sechzigst siebzigst achtzigst neunzigst hundertst letzt",
        endings="e er es",
        links="und",
        articles="das der die",
        suffixes=".",
    ),
    HeadingWords(  # French
        parts="partie livre tome volume",
        chapters="chapitre chap. section acte scène chant lettre leçon",
        alone="prologue, épilogue, préface, avant-propos, introduction, conclusion, postface, avertissement, "
        "dédicace, remerciements, interlude, appendice",
        cardinals="un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize vingt "
        "trente quarante cinquante soixante cent",
        ordinals="premier première second seconde deuxième troisième quatrième cinquième sixième septième huitième "
        "neuvième dixième onzième douzième treizième quatorzième quinzième seizième vingtième trentième quarantième "
        "cinquantième soixantième centième unième dernier dernière",
        links="et",
        suffixes="er ère re e ème",
    ),
    HeadingWords(  # Spanish
        parts="parte libro tomo volumen",
        chapters="capítulo cap. acto escena canto carta jornada tratado sección",
        alone="prólogo, epílogo, prefacio, introducción, conclusión, advertencia, dedicatoria, agradecimientos, "
        "posfacio, interludio, apéndice",
        cardinals="uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieci veinte "
        "veinti treinta cuarenta cincuenta sesenta setenta ochenta noventa cien ciento",
        ordinals="prim segund terc cuart quint sext séptim octav noven non décim undécim duodécim vigésim trigésim "
        "cuadragésim quincuagésim últim",
        endings="o a er ero era",
        links="y",
        suffixes="o a .o .a",
    ),
    HeadingWords(  # Portuguese
        parts="parte livro tomo volume",
        chapters="capítulo cap. acto ato cena canto carta secção seção",
        alone="prólogo, epílogo, prefácio, introdução, conclusão, advertência, dedicatória, agradecimentos, "
        "posfácio, interlúdio, apêndice",
        cardinals="um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quatorze quinze "
        "dezasseis dezesseis dezassete dezessete dezoito dezanove dezenove vinte trinta quarenta cinquenta sessenta "
        "cem cento",
        ordinals="primeir segund terceir quart quint sext sétim oitav non décim undécim duodécim vigésim trigésim "
        "quadragésim quinquagésim últim",
        endings="o a",
        links="e",
        suffixes="o a .o .a",
    ),
    HeadingWords(  # Italian
        parts="parte libro tomo volume",
        chapters="capitolo cap. atto scena canto lettera giornata sezione",
        alone="prologo, epilogo, prefazione, introduzione, conclusione, proemio, premessa, avvertenza, dedica, "
        "postfazione, ringraziamenti, interludio, appendice",
        cardinals="uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici "
        "sedici diciassette diciotto diciannove venti trenta quaranta cinquanta sessanta cento",
        ordinals="prim second terz quart quint sest settim ottav non decim undicesim dodicesim tredicesim "
        "quattordicesim quindicesim sedicesim diciassettesim diciottesim diciannovesim ventesim ventunesim "
        "ventiduesim ventitreesim ventiquattresim venticinquesim ventiseiesim ventisettesim ventottesim ventinovesim "
        "trentesim quarantesim ultim",
        endings="o a",
        suffixes="o a .o .a",
    ),
    HeadingWords(  # Russian
        parts="часть книга том",
        chapters="глава действие явление сцена акт песнь письмо раздел",
        alone="пролог, эпилог, предисловие, введение, вступление, заключение, послесловие, посвящение, интерлюдия, "
        "от автора, приложение",
        cardinals="один одна два две три четыре пять шесть семь восемь девять десять одиннадцать двенадцать "
        "тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать двадцать тридцать сорок "
        "пятьдесят шестьдесят сто",
        ordinals="перв втор трет четверт пят шест седьм восьм осьм девят десят одиннадцат двенадцат тринадцат "
        "четырнадцат пятнадцат шестнадцат семнадцат восемнадцат девятнадцат двадцат тридцат сороков пятидесят "
        "последн",
        endings="ый ая ое ой ий ья ье яя ее",
        suffixes="-я -й -е я й",
    ),
    HeadingWords(parts="deel boek", chapters="hoofdstuk", alone="voorwoord, nawoord"),  # Dutch
    HeadingWords(parts="część tom", chapters="rozdział", alone="wstęp, zakończenie"),  # Polish
)

# Scripts without capitals: signs that follow a number, 第三章 and 제3장, and headings that need none.
EASTERN_NUMERALS = "〇零一二三四五六七八九十百千两兩廿卅"
EASTERN_PARTS = "部卷巻篇编編"
EASTERN_CHAPTERS = "章回话話节節幕场場折集"
EASTERN_ALONE = (
    "序, 序章, 序言, 序幕, 序文, 自序, 前言, 引子, 引言, 楔子, 尾声, 尾聲, 终章, 終章, 后记, 後記, 跋, 番外, "
    "番外篇, 附录, 附錄, 结语, 結語, 间章, 間章, 幕间, 幕間, 前書き, まえがき, 後書き, あとがき, はじめに, "
    "おわりに, プロローグ, エピローグ, 付録"
)
KOREAN_PARTS = "부권편"
KOREAN_CHAPTERS = "장화회막절"
KOREAN_ALONE = (
    "프롤로그, 에필로그, 서문, 서장, 종장, 머리말, 맺음말, 들어가며, 나가며, 작가의 말, 후기, 외전, 서론, 결론, 부록"
)

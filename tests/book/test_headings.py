"""How plain texts announce their chapters in ten languages, and what only looks so."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_epub import texts, titles

from rhapsode.book import read_book
from rhapsode.book.announced import announced
from rhapsode.types import Book

PARTS = {
    "en": "PART ONE|The Second Book|First Part: Home|Volume II|BOOK THE THIRD",
    "de": "Erster Teil|II. Teil|Zweiter Band|Das dritte Buch|Buch Zwei|1. Teil. Die Reise",
    "fr": "Première partie|PARTIE II|Livre premier|TOME II|IIe partie|2e partie|1re partie",
    "es": "Primera parte|Parte segunda|LIBRO TERCERO|1.ª parte|II Parte",
    "pt": "Primeira Parte|Livro segundo|PARTE QUARTA|Tomo I",
    "it": "Parte prima|Parte seconda — Il mare|LIBRO III",
    "ru": "Часть первая|ЧАСТЬ ВТОРАЯ. Возвращение|Книга третья|Том II|1-я часть|Первая часть",
    "zh": "第三卷|第一卷：潜龙|第二部 海|卷一|卷之二|上卷|第一编",
    "ja": "第二部|第一巻",
    "ko": "제1부|제 2 권 바다|3부",
}
CHAPTERS = {
    "en": "CHAPTER I. Dawn|Chapter Twenty-One|Act I|Chapter the Last|chapter 1 the rain|CHAPTER II in which it rains"
    "|Prologue|Appendix A",
    "de": "Kapitel 1|Kap. 2|Erstes Kapitel|ZWEITES KAPITEL|Einundzwanzigstes Kapitel|1. Kapitel|II. Kapitel"
    "|Dreißigstes Kapitel|DREISSIGSTES KAPITEL: Abend|Das erste Kapitel|Erstes Kapitel. Der Sturm|Dritter Akt|Vorwort"
    "|Nachwort|Anhang A",
    "fr": "Chapitre premier|Chapitre Ier|Chapitre II|CHAPITRE 3|CHAPITRE PREMIER. — Où l’on part"
    "|Chapitre vingt et unième|Chapitre XIV La mer|Acte premier|SCÈNE II|Lettre première"
    "|Épilogue|EPILOGUE|Préface|AVANT-PROPOS",
    "es": "Capítulo primero|Capítulo I|CAPÍTULO II|CAPITULO III|Capítulo veintiuno|Capítulo décimo tercero"
    "|Capítulo 1.º|Capítulo primero. Que trata de la condición del hidalgo|Tratado segundo|Primer capítulo|Prólogo"
    "|Epílogo",
    "pt": "CAPITULO PRIMEIRO|Capítulo Primeiro|Capítulo XII|Capítulo vigésimo primeiro|Capitulo dois|Introdução"
    "|Prefácio",
    "it": "Capitolo primo|CAPITOLO II|Capitolo ventesimo primo|Capitolo ventiduesimo|Capitolo 3 — La casa|Prefazione"
    "|Atto primo",
    "ru": "Глава первая|Глава I|ГЛАВА ВТОРАЯ|Глава двадцать первая|Глава 12. Море|Действие первое|Пролог|От автора",
    "zh": "第一章|第1章|正文 第二章|第十二回|第一章 风起|第１２章　雨|第二回 贾夫人仙逝 冷子兴演说|第三章 你是谁？"
    "|第 12 章 海|第一百二十回|第一章风起云涌|序章|楔子|尾声|后记|番外 旧事|番外三",
    "ja": "第一章|第1話|第一話 出会い|第十章・海|第１話「雨」|プロローグ|あとがき|終章",
    "ko": "제1장|제 1 장|제2장 바다|제3장. 바다|1장|12화. 바다|프롤로그|에필로그|작가의 말",
}
PROSE = {
    "en": "Part of me|I part.|One letter|First act of kindness|Chapter 2 of his life began in the rain and",
    "de": "Ein Brief|3 Kapitel|Drei Kapitel|Erstes Kapitel des Buches, das er las|Teil des Ganzen"
    "|Zweites Buch der Reihe",
    "fr": "Chapitre premier de cette histoire, il…|Chapitre premier de cette histoire, il se trouva que|Une lettre"
    "|Deux livres|Le Livre|Ce chapitre|La première partie de sa vie fut triste.|Premier livre que je lus",
    "es": "Una carta|Mi libro|Va parte|Parte de la verdad|Capítulo primero de la obra que",
    "pt": "Uma carta|Parte um navio|Uma parte",
    "it": "Una lettera|Di parte|Non parte.|Io parte|Parte non poca",
    "ru": "Одна книга|Глава семьи вошёл в дом.|Часть людей ушла.|Глава первая его жизни кончилась|Письмо",
    "zh": "第一章讲述了他小时候的事情，那时候|第一章他就死了。|第一章 他死了。|第一天|第一次见面|序列|后记得他"
    "|第一，我不去",
    "ja": "第一章は雨の話だった。|第一印象|はじめにあった",
    "ko": "제1장 그는 바다로 갔다.|후기 인상파 화가들|1장 남았다|3장을 썼다",
}


def read(folder: Path, text: str) -> Book:
    path = folder / "My book.txt"
    path.write_text(text, encoding="utf-8", newline="")
    return read_book(path)


@pytest.mark.parametrize("language", PARTS)
def test_what_announces_a_part(language: str) -> None:
    for text in PARTS[language].split("|"):
        assert (found := announced(text)) and found.level == 1, text


@pytest.mark.parametrize("language", CHAPTERS)
def test_what_announces_a_chapter(language: str) -> None:
    for text in CHAPTERS[language].split("|"):
        assert (found := announced(text)) and found.level == 2, text


@pytest.mark.parametrize("language", PROSE)
def test_what_is_prose(language: str) -> None:
    for text in PROSE[language].split("|"):
        assert announced(text) is None, text


@pytest.mark.parametrize("separate", ["\n\n", "\n"])
def test_a_title_on_the_next_line(tmp_path: Path, separate: str) -> None:
    book = read(
        tmp_path,
        f"Erstes Kapitel{separate}Der Sturm\n\nEs regnete.\n\nZweites Kapitel{separate}Die See\n\nEs war hell.",
    )
    named = (
        ["Erstes Kapitel", "Zweites Kapitel"]
        if separate == "\n\n"
        else ["Erstes Kapitel Der Sturm", "Zweites Kapitel Die See"]
    )
    assert titles(book) == named
    assert texts(book)[0].split() == ["Erstes", "Kapitel", "Der", "Sturm", "Es", "regnete."]


def test_a_sentence_over_two_rows_is_no_heading(tmp_path: Path) -> None:
    text = "Il dormait.\n\nChapitre premier de cette histoire, il se trouva que\nle roi dormait.\n\nFin."
    assert titles(read(tmp_path, text)) == ["My book"]


def test_contents_make_no_chapters(tmp_path: Path) -> None:
    names = ("Глава первая", "Глава вторая", "Глава третья")
    body = "".join(f"{name}\n\nБыло утро.\n\n" for name in names)
    assert titles(read(tmp_path, "\n\n".join(names) + "\n\n" + body)) == ["My book", *names]


def test_parts_whose_chapters_begin_again(tmp_path: Path) -> None:
    chapters = "I\n\nБыло утро.\n\nII\n\nБыл вечер.\n\n"
    book = read(tmp_path, f"Часть первая\n\n{chapters}Часть вторая\n\n{chapters}")
    assert titles(book) == ["Часть первая: I", "II", "Часть вторая: I", "II"]
    assert titles(read(tmp_path, f"Было утро.\n\n{chapters}{chapters}")) == ["My book"], "no part tells them apart"


def test_bare_eastern_numerals(tmp_path: Path) -> None:
    numerals = [*"一二三四五六七八九十", "十一", "十二"]
    book = read(tmp_path, "\n\n".join(f"　　{number}\n\n　雨が降っていた。" for number in numerals))
    assert titles(book) == numerals
    assert titles(read(tmp_path, "雨が降った。\n\n二\n\n晴れた。\n\n三\n\nまた降った。")) == ["My book"]


ROWS = ["第一章 风起", "他走了，没有回头。", "她来了。", "第二章 云涌", "海上什么也看不见。"]


@pytest.mark.parametrize("indent", ["", "　　"])
@pytest.mark.parametrize("long", ["", "他坐在窗前，听着雨打在屋顶上的声音，一直听到天亮，" * 3])
def test_rows_of_an_eastern_text_without_blank_lines(tmp_path: Path, indent: str, long: str) -> None:
    rows = [row if row.startswith("第") else indent + long + row for row in ROWS]
    book = read(tmp_path, "\n".join(rows))
    assert titles(book) == ["第一章 风起", "第二章 云涌"]
    paragraphs = [block.text.split("\n") for block in book.chapters[0].blocks if block.kind == "paragraph"]
    whole = [[long + ROWS[1]], [long + ROWS[2]]]
    assert paragraphs == (whole if indent or long else [[*ROWS[1:3]]]), "rows are joined only where they may be wrapped"


def test_an_eastern_contents_in_one_paragraph(tmp_path: Path) -> None:
    contents = "第一章 风起\n第二章 云涌\n第三章 海\n\n"
    book = read(tmp_path, contents + "第一章 风起\n\n他走了。\n\n第二章 云涌\n\n她来了。\n\n第三章 海\n\n完。")
    assert titles(book) == ["My book", "第一章 风起", "第二章 云涌", "第三章 海"]

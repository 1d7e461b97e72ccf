"""Files that do not say what they are written in: the languages that are read, in what older systems wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_epub import texts

from rhapsode.book import read_book
from rhapsode.book.encoding import decode_plain
from rhapsode.types import Book

RUSSIAN = (
    "Когда маяк погас, смотритель не сразу это заметил: он сидел у окна и слушал, как дождь стучит по крыше. Потом он "
    "встал, зажёг лампу и пошёл наверх, считая ступени. «Двести двенадцать», — сказал он и открыл дверь."
)
TYPED = RUSSIAN.replace("«", chr(34)).replace("»", chr(34)).replace("—", "-")  # as old systems could
CHINESE = (
    "灯塔熄灭的时候，看守人没有马上发现。他坐在窗前，听着雨打在屋顶上的声音。后来他站起来，点了一盏灯，一步一步地往上走，"
    "心里数着台阶。“二百一十二，”他说，然后推开了门。海上什么也看不见，只有风。"
)
TAIWANESE = (
    "燈塔熄滅的時候，看守人沒有馬上發現。他坐在窗前，聽著雨打在屋頂上的聲音。後來他站起來，點了一盞燈，一步一步地往上走，"
    "心裡數著台階。「二百一十二，」他說，然後推開了門。海上什麼也看不見，只有風。"
)
JAPANESE = (
    "灯台の明かりが消えたとき、番人はすぐには気がつかなかった。窓のそばに座って、屋根を打つ雨の音を聞いていたのである。"
    "やがて彼は立ち上がり、ランプに火をともして、段を数えながら上って行った。「二百十二」と言って、戸を開けた。"
)
KOREAN = (
    "등대의 불이 꺼졌을 때 등대지기는 바로 알아차리지 못했다. 그는 창가에 앉아 지붕을 두드리는 빗소리를 듣고 있었다. "
    "그러다가 자리에서 일어나 등불을 켜고 계단을 세면서 위로 올라갔다. 그는 이백열둘이라고 말하고 문을 열었다."
)
WESTERN = {
    "de": "Als das Licht erlosch, hörte der Wärter nur den Regen. „Zweihundertzwölf“, sagte er – und öffnete die Tür.",
    "fr": "Le gardien s’était assis près de la fenêtre…\xa0«\xa0Où étais-tu\xa0?\xa0» —\xa0À l’étage, dit-elle, créée.",
    "es": "¿Quién apagó el faro? —«Él», dijo la niña—. Mañana contará otra vez los escalones, según él.",
    "it": "«\xa0È già notte\xa0», pensò: «\xa0è già\xa0». Là, più in giù, c’è il faro; però lei non sa perché.",
    "pt": "O guardião não percebeu logo: «São duzentos e doze», disse então, e abriu o portão. Havia só mar à volta.",
    "en": "“It’s late,” she said – naïve as ever… The café had closed.",
}
OLD = [
    (RUSSIAN, "cp1251", "Windows-1251"),
    (TYPED, "koi8_r", "KOI8-R"),
    (TYPED, "cp866", "DOS Cyrillic"),
    (CHINESE, "gbk", "GBK"),
    (CHINESE + "㐂", "gb18030", "GBK"),
    (TAIWANESE, "cp950", "Big5"),
    (JAPANESE + "①", "cp932", "Shift-JIS"),
    (JAPANESE, "euc_jp", "EUC-JP"),
    (KOREAN, "euc_kr", "EUC-KR"),
    (KOREAN + "똠", "cp949", "EUC-KR"),
]
IDS = [f"{name}-{codec}" for _, codec, name in OLD]


def read(folder: Path, raw: bytes, name: str = "x.txt") -> Book:
    (folder / name).write_bytes(raw)
    return read_book(folder / name)


@pytest.mark.parametrize(("text", "codec", "name"), OLD, ids=IDS)
def test_the_encoding_is_recognised_and_said(tmp_path: Path, text: str, codec: str, name: str) -> None:
    for suffix, before in (("txt", "A Title\n\n"), ("md", "# A Title\n\n"), ("html", "<title>A Title</title><p>")):
        book = read(tmp_path, (before + text).encode(codec), f"x.{suffix}")
        assert texts(book)[0].endswith(text), suffix
        assert book.notes == (
            f"The file is not UTF-8 and was read as {name}; if letters look wrong, save it as UTF-8.",
        )


@pytest.mark.parametrize(("text", "codec", "name"), OLD, ids=IDS)
def test_one_sentence_is_enough_and_so_is_any_other(text: str, codec: str, name: str) -> None:
    """Each part of forty characters, after an English page, with bytes that are broken and one that is cut in two."""
    parts = [text[at : at + 40] for at in range(0, len(text) - 40, 20)]
    assert len(parts) > 2
    for part in parts:
        assert decode_plain(part.encode(codec)) == (part, name)
        page = b"Produced by volunteers.\n" * 9000
        found, said = decode_plain(page + part.encode(codec) + b"\n\xff\n" + b"\x81\n" + part.encode(codec)[:-1])
        assert said == name and found.startswith(f"{page.decode()}{part}\n")


@pytest.mark.parametrize("language", WESTERN)
def test_western_texts_are_windows_1252(tmp_path: Path, language: str) -> None:
    text = WESTERN[language]
    book = read(tmp_path, text.encode("cp1252"))
    assert " ".join(texts(book)[0].split()) == " ".join(text.split())
    assert "read as Windows-1252" in book.notes[0]


def test_a_quotation_in_another_script_does_not_turn_a_western_text() -> None:
    accents = (WESTERN["fr"] + "\n").encode("cp1252") * 30
    assert decode_plain(accents + RUSSIAN[:40].encode("cp1251"))[1] == "Windows-1252"


@pytest.mark.parametrize("text", [RUSSIAN, CHINESE, JAPANESE, KOREAN, WESTERN["fr"]])
def test_a_damaged_utf8_file_is_still_utf8(tmp_path: Path, text: str) -> None:
    raw = text.encode() + "é".encode()[:1]  # cut within its last character
    book = read(tmp_path, raw)
    assert texts(book)[0].split() == f"{text}\ufffd".split()
    assert book.notes == ("Some bytes of the file are damaged and could not be read; the rest is UTF-8.",)


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp1253", "Όταν έσβησε ο φάρος, ο φύλακας δεν το κατάλαβε αμέσως: άκουγε τη βροχή."),
        ("cp1250", "Latarnik nie od razu zauważył, że światło zgasło, bo słuchał, jak pada deszcz."),
        ("cp1255", "כשכבה המגדלור לא הבחין בכך השומר מיד"),
    ],
)
def test_what_no_candidate_fits_is_told_as_before(tmp_path: Path, codec: str, text: str) -> None:
    book = read(tmp_path, text.encode(codec))
    assert texts(book)[0] == text.encode(codec).decode("cp1252", "replace")
    assert "read as Windows-1252" in book.notes[0]


def test_a_declared_charset_that_is_too_narrow_gives_way(tmp_path: Path) -> None:
    """Pages say gb2312 and Shift_JIS, and hold characters that only the encodings around them have."""
    for declared, text, codec in (("gb2312", CHINESE + "镕", "gbk"), ("shift_jis", JAPANESE + "①", "cp932")):
        book = read(tmp_path, f"<meta charset='{declared}'><p>{text}".encode(codec), "x.html")
        assert texts(book) == [text]


def test_a_little_of_a_large_file_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    guess = "rhapsode.book.encoding._guess"
    monkeypatch.setattr(guess, lambda sample: seen.append(len(sample)) or ("gb18030", ""))
    for raw in ((CHINESE + "\n").encode("gbk") * 20_000, CHINESE.encode("gbk") * 20_000):
        decode_plain(raw)
    assert max(seen) <= 40_000

"""From a book file to the lines that are read aloud.

Knows file formats, text and sentences; knows nothing of voices, models or sound.
`read_book` turns a file into a `Book`, `split_lines` turns a `Book` into `Line`s.
"""

from rhapsode.book.lines import split_lines
from rhapsode.book.reader import read_book

__all__ = ["read_book", "split_lines"]

"""Codebooks while they are learned: tables follow their vectors, unused rows come back, gradients pass straight."""

from __future__ import annotations

import torch

from training.layout import BOOKS, CODES, DEEP_CODES
from training.quantiser import FAR, Codebook, Codebooks


def vectors(count: int, width: int = 6) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(3))


def settled() -> Codebooks:
    torch.manual_seed(0)
    books = Codebooks(6, "cpu")
    x = vectors(4096)
    books.first(x, settle=True)
    books.rest(x, settle=True)
    books.strength.fill_(1.0)
    return books


def test_settling_finds_the_centres_of_clusters() -> None:
    torch.manual_seed(0)
    centres = 10 * vectors(DEEP_CODES)
    x = centres.repeat(20, 1) + 0.01 * vectors(20 * DEEP_CODES)
    book = Codebook(2 * DEEP_CODES, 6)
    book.settle(x)
    apart = (x - book.table[book.nearest(x, book.table)]).square().mean()
    assert apart < 0.02 * x.square().mean()


def test_deeper_books_leave_less_and_less() -> None:
    books, x = settled(), vectors(512)
    errors = []
    for kept in (1, 4, BOOKS - 1):
        _, made, _ = books.rest(x, torch.full((512,), kept))
        errors.append(float((made - x).square().mean()))
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0


def test_no_book_kept_gives_nothing_and_no_gradient() -> None:
    books, x = settled(), vectors(8).requires_grad_(True)
    _, made, _ = books.rest(x, torch.zeros(8, dtype=torch.long))
    made.sum().backward()
    assert made.eq(0).all() and x.grad is not None and x.grad.eq(0).all()


def test_gradient_passes_as_if_nothing_were_quantised() -> None:
    books, x = settled(), vectors(8).requires_grad_(True)
    _, row, _ = books.first(x)
    (row * torch.arange(8.0).unsqueeze(1)).sum().backward()
    assert torch.equal(x.grad, torch.arange(8.0).unsqueeze(1).expand(8, 6))
    assert not torch.allclose(row, x)


def test_codes_and_tables_give_back_what_was_made() -> None:
    books, x = settled(), vectors(64)
    codes = books.codes(x, x)
    tables = books.tables(BOOKS)
    assert codes.shape == (64, BOOKS) and int(codes[:, 1:].max()) < DEEP_CODES
    total = torch.stack([tables[book, codes[:, book]] for book in range(1, BOOKS)]).sum(0)
    assert torch.allclose(total, books.rest(x)[1], atol=1e-5)
    assert tables.shape == (BOOKS, CODES, 6) and tables[1, DEEP_CODES:].eq(FAR).all()


def test_dead_rows_are_born_again() -> None:
    torch.manual_seed(0)
    book = Codebook(16, 6)
    with torch.no_grad():
        book.sums[8:] = 1e6
    x = vectors(256)
    used = [len(set(book.nearest(x, book.table).tolist()))]
    for revive in (False, True):
        for _ in range(150):
            book.follow(x, book.nearest(x, book.table), torch.tensor(0.9), torch.tensor(revive))
        used.append(len(set(book.nearest(x, book.table).tolist())))
    assert used[1] <= 8 < used[2]

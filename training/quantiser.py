"""The codec's codebooks while they are learned: k-means, running averages, dead rows born again.

Knows vectors and rows of tables. Tables follow the encoder as running averages, after van den Oord et al.,
"Neural discrete representation learning" (2017), appendix A.1; residual codebooks as in Zeghidour et al.,
"SoundStream" (2021), with their dropout of the deeper ones. No gradient reaches a table.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.layout import BOOKS, CODES, DEEP_CODES

_KMEANS_ROUNDS = 10
_COMMITTED = (1, 2, 4, 8, BOOKS - 1)  # books after which the rest is asked to be small
FAR = 100.0  # where rows lie that no vector may find


class Codebook(nn.Module):
    """Rows as running sums over running counts."""

    sums: Tensor
    counts: Tensor

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.register_buffer("sums", 0.1 * torch.randn(rows, width))
        self.register_buffer("counts", torch.ones(rows))

    @property
    def table(self) -> Tensor:
        """[rows, width]."""
        return self.sums / self.counts.clamp(min=1e-5).unsqueeze(1)

    def nearest(self, x: Tensor, table: Tensor) -> Tensor:
        """Vectors [n, width] -> numbers of rows [n]."""
        return (table.square().sum(1) - 2 * x @ table.t()).argmin(1)

    def follow(self, x: Tensor, chosen: Tensor, decay: Tensor, revive: Tensor) -> None:
        """Move the rows towards the vectors [n, width] that chose them; `revive` (bool): replace the unused ones."""
        rows = self.counts.shape[0]
        hot = torch.zeros(len(x), rows, device=x.device).scatter_(1, chosen.unsqueeze(1), 1.0)
        self.counts.mul_(decay).add_(hot.sum(0) * (1 - decay))
        self.sums.mul_(decay).add_((hot.t() @ x) * (1 - decay))
        fair = len(x) / rows
        dead = (self.counts < 0.05 * fair) & revive
        born = x[torch.randint(len(x), (rows,), device=x.device)]
        self.sums.copy_(torch.where(dead.unsqueeze(1), born * 0.3 * fair, self.sums))
        self.counts.copy_(torch.where(dead, torch.full_like(self.counts, 0.3 * fair), self.counts))

    def settle(self, x: Tensor) -> None:
        """Rows by k-means over vectors [n, width]."""
        rows = self.counts.shape[0]
        table = x[torch.randint(len(x), (rows,), device=x.device)] + 1e-3 * torch.randn_like(x[:1])
        for _ in range(_KMEANS_ROUNDS):
            hot = F.one_hot(self.nearest(x, table), rows).to(x.dtype)
            counts = hot.sum(0)
            means = hot.t() @ x / counts.clamp(min=1).unsqueeze(1)
            table = torch.where((counts < 1).unsqueeze(1), x[torch.randint(len(x), (rows,), device=x.device)], means)
        fair = len(x) / rows
        self.counts.fill_(fair)
        self.sums.copy_(table * fair)


class Codebooks(nn.Module):
    """All books of the codec: the first on its own vectors, the others on what is left of theirs."""

    def __init__(self, width: int, device: str) -> None:
        super().__init__()
        self.books = nn.ModuleList(Codebook(CODES if i == 0 else DEEP_CODES, width) for i in range(BOOKS))
        self.width = width
        self.decay = torch.tensor(0.98, device=device)
        self.revive = torch.tensor(False, device=device)
        self.strength = torch.tensor(0.0, device=device)  # 0: vectors pass unquantised, before the tables are settled
        self.to(device)

    @torch.no_grad()
    def _choose(self, book: int, x: Tensor, learn: bool, settle: bool) -> tuple[Tensor, Tensor]:
        module = self.books[book]
        assert isinstance(module, Codebook)
        if settle:
            module.settle(x)
        table = module.table
        chosen = module.nearest(x, table)
        if learn:
            module.follow(x, chosen, self.decay, self.revive)
        return chosen, F.embedding(chosen, table)

    def first(self, x: Tensor, *, learn: bool = False, settle: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors [n, width] -> codes [n], the row with the gradient of the vector [n, width], commitment loss."""
        chosen, row = self._choose(0, x.detach(), learn, settle)
        return chosen, x + ((row - x) * self.strength).detach(), F.mse_loss(x, row)

    def rest(
        self, x: Tensor, kept: Tensor | None = None, *, learn: bool = False, settle: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As `first`, over books 1 to 15: codes [n, 15]. `kept` [n]: how many of them each vector is rebuilt from."""
        left, total = x.detach(), torch.zeros_like(x)
        codes, commitment = [], x.new_zeros(())
        for book in range(1, BOOKS):
            chosen, row = self._choose(book, left, learn, settle)
            codes.append(chosen)
            left = left - row
            total = total + (row if kept is None else row * (kept >= book).unsqueeze(1))
            if book in _COMMITTED:
                commitment = commitment + 0.2 * F.mse_loss(x, (x - left).detach())
        made = x + ((total - x) * self.strength).detach()
        if kept is not None:
            made = made * (kept >= 1).unsqueeze(1)
        return torch.stack(codes, 1), made, commitment

    @torch.no_grad()
    def codes(self, first: Tensor, rest: Tensor) -> Tensor:
        """Vectors [n, width] of both kinds -> codes [n, books]."""
        return torch.cat((self.first(first)[0].unsqueeze(1), self.rest(rest)[0]), 1)

    @torch.no_grad()
    def tables(self, books: int, rows: int = CODES) -> Tensor:
        """[books, rows, width]; rows that there are not lie where no vector finds them."""
        out = torch.full((books, rows, self.width), FAR, device=self.decay.device)
        for i, module in enumerate(self.books[:books]):
            assert isinstance(module, Codebook)
            out[i, : module.counts.shape[0]] = module.table
        return out

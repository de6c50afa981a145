"""Compiled loops for large MDPs and long walks; `mdp.chain`, `mdp.sampling` and `solvers.operators` decide when.

Names shared by all loops: `row`, `column` and `probability` are the CSR arrays of the transition. Choice c has the
entries row[c] .. row[c+1], at least one. `first` is first_choice, `reward` is on choices (C,), `value` on states (S,).

Loops are compiled on first use and cached on disk, if numba can write there. They do not call BLAS: on a busy machine
its threads wait for each other longer than these vectors take. Loops over a range of states, `low` .. `high`, release
the interpreter lock, so several can work on parts of one problem (`parallel`). Numba's parallel loops are not used:
their threads do not survive a fork, and numba's default scheduler does not allow several callers at a time.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from numba import njit

LoopT = TypeVar("LoopT", bound=Callable[..., Any])
# Flags of the compiler. Sums may be reordered and fused; infinities and NaN keep their meaning.
FASTMATH: set[str] = {"nsz", "contract", "reassoc"}
# Operations may be fused but not reordered.
IN_ORDER: set[str] = {"nsz", "contract"}


def compiled(**options: Any) -> Callable[[LoopT], LoopT]:
    """Compile a loop on first use: cached on disk, or without a cache where numba can write to no folder."""

    def compile_loop(loop: LoopT) -> LoopT:
        lazy: LoopT
        try:
            lazy = njit(cache=True, nogil=True, **options)(loop)
        except RuntimeError:
            _warn_once()
            lazy = njit(nogil=True, **options)(loop)
        return lazy

    return compile_loop


@cache
def _warn_once() -> None:
    text = "numba cannot write its cache, so loops are compiled again in every process; set NUMBA_CACHE_DIR to a folder"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


from tutelage.kernels.backups import hard_backup_range, hard_sweeps, problem, reachable, soft_backup_range
from tutelage.kernels.elimination import band, carry, elimination_cost, follow, solve_band
from tutelage.kernels.one_step import least_smooth_maxima, smooth_maxima, smooth_policy
from tutelage.kernels.parallel import block_edges, in_blocks, map_in_threads, unsigned
from tutelage.kernels.shares import SLACK, best_shares, nearest_shares
from tutelage.kernels.triangular import (
    backward,
    bicgstab,
    count_parts,
    fill_columns,
    fill_weights,
    finish,
    forward,
    relax,
)
from tutelage.kernels.walks import walk

__all__ = [
    "SLACK",
    "backward",
    "band",
    "best_shares",
    "bicgstab",
    "block_edges",
    "carry",
    "count_parts",
    "elimination_cost",
    "fill_columns",
    "fill_weights",
    "finish",
    "follow",
    "forward",
    "hard_backup_range",
    "hard_sweeps",
    "in_blocks",
    "least_smooth_maxima",
    "map_in_threads",
    "nearest_shares",
    "problem",
    "reachable",
    "relax",
    "smooth_maxima",
    "smooth_policy",
    "soft_backup_range",
    "solve_band",
    "unsigned",
    "walk",
]

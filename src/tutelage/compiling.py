"""Compiled loops: the compiler's flags, and threads for several of them.

Loops stand beside what they serve (`bellman.backups`, `chains.elimination` and others) and are imported on first use,
because loading the compiler takes half a second. Names shared by all loops: `row`, `column` and `probability` are the
CSR arrays of the transition. Choice c has the entries row[c] .. row[c+1], at least one. `first` is first_choice,
`reward` is on choices (C,), `value` on states (S,).

They do not call BLAS (see docs/decisions.md). They release the interpreter lock, so several can work at a time. Numba's
parallel loops are not used: their threads do not survive a fork, and do not serve several callers at a time.
"""

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np

from tutelage.arrays import Indices, Vector

# Row starts, columns and weights of a sparse matrix.
Rows: TypeAlias = tuple[Indices, Indices, Vector]
LoopT = TypeVar("LoopT", bound=Callable[..., Any])
ResultT = TypeVar("ResultT")
# Flags of the compiler. Sums may be reordered and fused; infinities and NaN keep their meaning.
FASTMATH: set[str] = {"nsz", "contract", "reassoc"}
# Operations may be fused but not reordered.
IN_ORDER: set[str] = {"nsz", "contract"}


def compiled(**options: Any) -> Callable[[LoopT], LoopT]:
    """Compile a loop on first use: cached on disk, or without a cache where numba can write to no folder."""

    def compile_loop(loop: LoopT) -> Any:
        try:
            return numba.njit(cache=True, nogil=True, **options)(loop)
        except RuntimeError:
            text = "numba cannot write its cache, so loops are compiled again in every process"
            warnings.warn(f"{text}; set NUMBA_CACHE_DIR to a folder", RuntimeWarning, stacklevel=1)
            return numba.njit(nogil=True, **options)(loop)

    return compile_loop


def map_in_threads(work: Callable[[Any], ResultT], items: Iterable[Any]) -> list[ResultT]:
    """The results of work(item) for each item, in order, computed by several threads. `work` must release the
    interpreter lock, and must not itself use these threads."""
    # As many as numba would use, read from its settings: numba's own function would start threads.
    n_threads = int(vars(numba.config)["NUMBA_NUM_THREADS"])
    return [work(item) for item in items] if n_threads == 1 else list(_pool(os.getpid(), n_threads).map(work, items))


@lru_cache(maxsize=4)
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """One pool per process, since threads do not survive a fork."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="tutelage")


def unsigned(indices: Indices) -> Any:
    """A view of the indices as unsigned numbers, so that compiled loops do not check for negative indices."""
    return indices.view(np.uint32) if indices.dtype == np.int32 else indices

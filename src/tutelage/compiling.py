"""Compiled loops: the compiler's flags, and blocks of states with one thread each.

Loops stand beside what they serve (`bellman.backups`, `chains.elimination` and others) and are imported on first use,
because loading the compiler takes half a second. Names shared by all loops: `row`, `column` and `probability` are the
CSR arrays of the transition. Choice c has the entries row[c] .. row[c+1], at least one. `first` is first_choice,
`reward` is on choices (C,), `value` on states (S,).

They do not call BLAS: on a busy machine its threads wait for each other longer than these vectors take. Loops over a
range of states, `low` .. `high`, release the interpreter lock, so several can work on parts of one problem. Numba's
parallel loops are not used: their threads do not survive a fork, and do not serve several callers at a time. The number
of blocks depends only on the problem, so the answer is the same to the last bit for any number of threads.
"""

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np

from tutelage.arrays import Indices

LoopT = TypeVar("LoopT", bound=Callable[..., Any])
ResultT = TypeVar("ResultT")
Edges: TypeAlias = tuple[tuple[int, int], ...]

# Up to this many states, threads cost more time than they save.
BLOCKS_ABOVE = 100_000
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
            _warn_once()
            return numba.njit(nogil=True, **options)(loop)

    return compile_loop


@cache
def _warn_once() -> None:
    text = "numba cannot write its cache, so loops are compiled again in every process; set NUMBA_CACHE_DIR to a folder"
    warnings.warn(text, RuntimeWarning, stacklevel=2)


def block_edges(start: Indices, n_blocks: int = 4) -> Edges:
    """Ranges of states with about equally many entries; start: (S+1,), where each state's entries begin."""
    n_states = len(start) - 1
    if n_states <= BLOCKS_ABOVE:
        return ((0, n_states),)
    shares = np.linspace(0, int(start[-1]), n_blocks + 1)[1:-1]
    ends = [0, *np.searchsorted(start, shares).tolist(), n_states]
    return tuple((low, high) for low, high in pairwise(ends) if low < high)


def in_blocks(edges: Edges, loop: Callable[..., Any], *given: Any) -> list[Any]:
    """The results of loop(*given, low, high) for each block, in order."""
    if len(edges) == 1:
        return [loop(*given, *edges[0])]
    return map_in_threads(lambda block: loop(*given, *block), edges)


def map_in_threads(work: Callable[[Any], ResultT], items: Iterable[Any]) -> list[ResultT]:
    """The results of work(item) for each item, in order, computed by several threads.

    `work` must release the interpreter lock, and must not itself use these threads.
    """
    n_threads = thread_count()
    return [work(item) for item in items] if n_threads == 1 else list(_pool(os.getpid(), n_threads).map(work, items))


def thread_count() -> int:
    """The number that numba would use, read from its settings: numba's own function would start threads."""
    return int(vars(numba.config)["NUMBA_NUM_THREADS"])


@lru_cache(maxsize=4)
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """One pool per process, since threads do not survive a fork."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="tutelage")


def unsigned(indices: Indices) -> Any:
    """A view of the indices as unsigned numbers, so that compiled loops do not check for negative indices."""
    return indices.view(np.uint32) if indices.dtype == np.int32 else indices

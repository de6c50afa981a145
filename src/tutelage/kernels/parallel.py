"""Blocks of states, for large problems, with one thread per block.

The number of blocks depends only on the problem, so the answer is the same to the last bit for any number of threads.
The number of threads is NUMBA_NUM_THREADS, which joblib sets for its workers, or else one per core.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np

from tutelage.arrays import Indices

ResultT = TypeVar("ResultT")
Edges: TypeAlias = tuple[tuple[int, int], ...]

# Up to this many states, threads cost more time than they save.
BLOCKS_ABOVE = 100_000
N_BLOCKS = 4


def block_edges(start: Indices) -> Edges:
    """Ranges of states with about equally many entries; start: (S+1,), where each state's entries begin."""
    n_states = len(start) - 1
    if n_states <= BLOCKS_ABOVE:
        return ((0, n_states),)
    shares = np.linspace(0, int(start[-1]), N_BLOCKS + 1)[1:-1]
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

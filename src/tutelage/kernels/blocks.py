"""Large problems in blocks of states, each worked on by a thread of its own.

How many blocks there are depends on the problem alone, never on the machine, so that the answer is the same to the last
bit whatever the number of threads: NUMBA_NUM_THREADS, which joblib sets for its workers, or else one per core.
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

# Below this many states handing the work out takes longer than it saves.
BLOCKS_ABOVE = 100_000
N_BLOCKS = 4


def block_edges(start: Indices) -> Edges:
    """Ranges of states with about as many entries each; start: (S+1,), where each state's entries begin."""
    n_states = len(start) - 1
    if n_states <= BLOCKS_ABOVE:
        return ((0, n_states),)
    shares = np.linspace(0, int(start[-1]), N_BLOCKS + 1)[1:-1]
    inner = np.searchsorted(start, shares).tolist()
    ends = [0, *inner, n_states]
    return tuple((low, high) for low, high in pairwise(ends) if low < high)


def in_blocks(edges: Edges, loop: Callable[..., Any], *given: Any) -> list[Any]:
    """loop(*given, low, high) for every block: what each returned, in order."""
    if len(edges) == 1:
        return [loop(*given, *edges[0])]
    return at_a_time(lambda block: loop(*given, *block), edges)


def at_a_time(work: Callable[[Any], ResultT], items: Iterable[Any]) -> list[ResultT]:
    """work(item) for every item, as many at a time as there are threads: what each returned, in order.

    The work must let go of the interpreter, and must not itself be divided among these threads.
    """
    n_threads = how_many_threads()
    return [work(item) for item in items] if n_threads == 1 else list(_pool(os.getpid(), n_threads).map(work, items))


def how_many_threads() -> int:
    """As numba would use; read from its settings, for asking it would start threads of its own."""
    return int(vars(numba.config)["NUMBA_NUM_THREADS"])


@lru_cache(maxsize=4)
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """Threads do not survive a fork, hence a pool for each process."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="tutelage")


def unsigned(indices: Indices) -> Any:
    """The same memory read as unsigned numbers: then no loop checks whether an index counts from the end."""
    return indices.view(np.uint32) if indices.dtype == np.int32 else indices

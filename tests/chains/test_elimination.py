"""Elimination: its operations on patterns where they are known; `test_resolvent` has its solutions."""

import numpy as np
import pytest
from scipy import sparse

from tutelage.chains.elimination import fill_operations


def operations_of(edges, n, most=np.inf):
    """The operations of an undirected graph, its states in their order."""
    pairs = np.array([*edges, *[(b, a) for a, b in edges]])
    graph = sparse.csr_array((np.ones(len(pairs)), pairs.T), shape=(n, n))
    return fill_operations(graph.indptr, graph.indices, most)


def test_operations_that_are_known():
    """A path, or a star whose centre comes last, has no fill; with its centre first, a star fills up completely."""
    n = 50
    path, star = [(k, k + 1) for k in range(n - 1)], [(n - 1, k) for k in range(n - 1)]
    assert operations_of(path, n) == operations_of(star, n) == 2 * (n - 1)
    dense = operations_of([(0, k) for k in range(1, n)], n)
    assert dense == operations_of([(a, b) for a in range(n) for b in range(a)], n)
    assert dense == pytest.approx(2 * n**3 / 3, rel=0.1)
    assert operations_of(path, n, most=n) == np.inf


@pytest.mark.parametrize("seed", range(5))
def test_operations_are_those_of_an_elimination_of_the_pattern(seed):
    """Against elimination on sets: a state connects all its later neighbours."""
    rng, n = np.random.default_rng(seed), 40
    edges = {(int(min(pair)), int(max(pair))) for pair in rng.integers(n, size=(60, 2)) if pair[0] != pair[1]}
    later, expected = [{b for a, b in edges if a == k} for k in range(n)], 0
    for k in range(n):
        expected += 2 * len(later[k]) ** 2
        for i in later[k]:
            later[i] |= {j for j in later[k] if j > i}
    assert operations_of(sorted(edges), n) == expected

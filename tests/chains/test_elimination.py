"""Elimination: its cost on patterns where that is known; `test_resolvent` has its solutions."""

import numpy as np
import pytest
from scipy import sparse

from tutelage.chains.elimination import elimination_cost


def cost_of(edges, n, budget=np.inf):
    """The elimination cost of an undirected graph."""
    pairs = np.array([*edges, *[(b, a) for a, b in edges]])
    graph = sparse.csr_array((np.ones(len(pairs)), pairs.T), shape=(n, n))
    return elimination_cost(graph.indptr.astype(np.int64), graph.indices.astype(np.int64), budget)


def test_elimination_costs_that_are_known():
    """A path and a star have no fill: one neighbour at each step. A complete graph is dense from the start."""
    n = 50
    path, star = [(k, k + 1) for k in range(n - 1)], [(0, k) for k in range(1, n)]
    assert cost_of(path, n) == pytest.approx(4 * n, abs=8)
    assert cost_of(star, n) == pytest.approx(4 * n, abs=8)
    dense = cost_of([(a, b) for a in range(n) for b in range(a)], n)
    assert dense == pytest.approx(2 * n**3 / 3, rel=0.1)
    assert cost_of([(a, b) for a in range(n) for b in range(a)], n, budget=0.5 * dense) == np.inf

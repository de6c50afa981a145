"""`python -m benchmarks.borlange FOLDER`: what 1,832 drivers in Borlänge prefer, by `tutelage.infer_preferences`.

The recursive logit of Fosgerau, Frejinger and Karlström (Transportation Research B 56, 2013, 70-80) is the soft policy
without discount, with one domain for each destination. Their data are not part of this project: FOLDER has the files
linkIncidence.txt, ATTRIBUTEestimatedtime.txt, ATTRIBUTEturnangles.txt and observationsForEstimBAI.txt, also as .txt.gz,
which https://github.com/maitien86/RecursiveLogit.Classical.V2 (Tien Mai) has in its folder Input.

A state is a link of the road network, a choice is the next link or the arrival. Left turns and U-turns are those of
Mai's program: angles below -30 degrees, and beyond 3.1 radians.
"""

import resource
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy import sparse

import tutelage as tl
from tutelage.arrays import Indices, Matrix

NAMES = ("travel time", "left turn", "link constant", "U-turn")
PUBLISHED = (-2.494, -0.933, -0.411, -4.459)
LEFT, BACK = -0.5236, 3.1


def read(folder: Path, name: str) -> Matrix:
    """The rows of a file with three columns: row, column and value of a sparse matrix that counts from one."""
    path = next(path for path in (folder / f"{name}.txt", folder / f"{name}.txt.gz") if path.exists())
    return np.atleast_2d(np.loadtxt(path))


def values_at(table: Matrix, begin: Indices, end: Indices, n: int) -> Matrix:
    """The entries of a sparse matrix at some places."""
    matrix = sparse.csr_array((table[:, 2], (table[:, 0].astype(int) - 1, table[:, 1].astype(int) - 1)), (n, n))
    return np.asarray(matrix[begin, end])


def journeys(folder: Path) -> list[tuple[tl.Domain, tl.Demonstrations]]:
    """A domain for each destination, with the trips that end there."""
    links, times, angles, seen = (
        read(folder, name)
        for name in ("linkIncidence", "ATTRIBUTEestimatedtime", "ATTRIBUTEturnangles", "observationsForEstimBAI")
    )
    begin, end = links[:, 0].astype(int) - 1, links[:, 1].astype(int) - 1
    n_links, n = begin.max() + 1, int(max(begin.max(), end.max())) + 1
    time_taken, angle = (values_at(table, begin, end, n) for table in (times, angles))
    is_back = np.abs(angle) > BACK
    features = np.column_stack([time_taken, (angle < LEFT) & ~is_back, time_taken > 0, is_back]).astype(float)
    trips: dict[int, list[list[int]]] = {}
    seen = seen[seen[:, 2] > 0]
    seen = seen[np.lexsort((seen[:, 1], seen[:, 0]))]
    for row in np.split(seen, np.flatnonzero(np.diff(seen[:, 0])) + 1):
        visited = (row[:, 2] - 1).astype(int)
        # The first number is the destination, where the trip also ends; it is the last state here.
        trips.setdefault(int(visited[0]), []).append([*visited[1:-1].tolist(), int(n_links)])
    return [one_destination(goal, trips[goal], begin, end, features, int(n_links)) for goal in sorted(trips)]


def one_destination(
    goal: int, trips: list[list[int]], begin: Indices, end: Indices, features: Matrix, n_links: int
) -> tuple[tl.Domain, tl.Demonstrations]:
    """The domain of one destination, whose arrival is the last state."""
    kept = (end < n_links) | (end == goal)
    state, after = begin[kept], np.where(end[kept] == goal, n_links, end[kept])
    order = np.lexsort((after, state))
    state, after = np.append(state[order], n_links), np.append(after[order], n_links)
    phi = np.vstack([features[kept][order], np.zeros(features.shape[1])])
    rows = sparse.csr_array((np.ones(len(after)), after, np.arange(len(after) + 1)), (len(after), n_links + 1))
    starts = np.bincount([trip[0] for trip in trips], minlength=n_links + 1) / len(trips)
    mdp = tl.MDP.from_choices(rows, np.searchsorted(state, np.arange(n_links + 2)), starts, 1.0)
    place = {(int(s), int(t)): choice for choice, (s, t) in enumerate(zip(state, after, strict=True))}
    taken = [[place[pair] for pair in pairwise(trip)] for trip in trips]
    domain = tl.Domain(mdp, phi, reward_names=NAMES)
    return domain, tl.Demonstrations.from_choice_sequences(mdp, trips, taken)


def main(folder: str) -> None:
    """Print the estimates with their standard errors, the published ones, and what it took."""
    start = time.process_time()
    pairs = journeys(Path(folder))
    n_trips, built = sum(trips.n for _, trips in pairs), time.process_time() - start
    print(f"{n_trips} trips to {len(pairs)} destinations, {pairs[0][0].mdp.n_states - 1} links: {built:.1f} s")
    found = tl.infer_preferences(pairs)
    for name, weight, error, known in zip(NAMES, found.reward_weights, found.reward_error, PUBLISHED, strict=True):
        print(f"{name:14} {weight:8.3f} +- {error:.3f}   (published {known})")
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"log-likelihood {found.log_likelihood:.2f}")
    print(f"{time.process_time() - start:.1f} s of processor time, {gib:.2f} GiB")


if __name__ == "__main__":
    main(*sys.argv[1:])

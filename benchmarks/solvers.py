"""How many times faster the solvers are than the obvious alternatives, and how much memory they take: `make bench`.

*Soft solution.* `solve_soft` against value iteration on SciPy's sparse matrices, both to 1e-8 of the value, on the
rewards of published object worlds, times one and times five (the size that a learner with penalty 5 infers). The rival
has its best form: rows ordered by action (not timed) so that every reduction runs over contiguous memory, a start from
log(A) / (1 - discount), MacQueen's bounds to stop on. The plain form starts from zero and stops on the change alone.
*Constrained MDP* and *projection.* Decomposition, with L5's six limits, against the whole program over occupancies:
HiGHS and Clarabel by `route="direct"`. Every answer is checked before it is timed: soft values by a backup that shares
no code with the package, policies by evaluating them anew, and both against the rival's. Ours and the rival's runs
alternate; a ratio is the median of the pairs', with the least and the greatest. Compiled code is warmed up first.

*Memory*, peak bytes per choice: what NumPy allocates (tracemalloc sees it) while solving, and with the domain itself;
where Linux tells, also the growth of resident memory since before the domain was made, which knows of compiled code's
own arrays too, but not of pages that were there before. The run fails if an answer is wrong or a figure that must hold
does not.
"""

import argparse
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from timeit import timeit

import numpy as np
from rich.console import Console
from rich.table import Table

import tutelage as tl

ACCURACY, ALLOWANCE, AT_LEAST, AT_MOST = 1e-8, 2.5, 10.0, 300.0
HIGH_WATER = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Figure:
    """A ratio, with its spread and the median milliseconds of both; or bytes per choice."""

    task: str
    grid: int
    against: str
    figure: float
    must_hold: str
    holds: bool
    spread: tuple[float, float] | None = None
    milliseconds: tuple[float, float] | None = None


class ValueIteration:
    """Soft value iteration for MDPs of A actions in every state, with SciPy and NumPy alone."""

    def __init__(self, mdp: tl.MDP, reward: np.ndarray) -> None:
        self.n_actions, self.discount, self.reward = mdp.n_choices // mdp.n_states, mdp.discount, reward
        self.ahead = mdp.discount / (1 - mdp.discount)
        self.transition = mdp.transition[np.arange(mdp.n_choices).reshape(-1, self.n_actions).T.ravel()]

    def backup(self, value: np.ndarray) -> np.ndarray:
        worth = (self.transition @ value).reshape(self.n_actions, -1)
        worth *= self.discount
        worth += self.reward
        best = worth.max(axis=0)
        worth -= best
        return best + np.log(np.exp(worth, out=worth).sum(axis=0))

    def at_its_best(self) -> np.ndarray:
        value = np.full(len(self.reward), np.log(self.n_actions) / (1 - self.discount))
        while True:
            backed = self.backup(value)
            low, high = (backed - value).min(), (backed - value).max()
            value = backed
            if self.ahead * (high - low) <= 2 * ACCURACY:
                return value + self.ahead * (low + high) / 2

    def plain(self) -> np.ndarray:
        value, change = np.zeros(len(self.reward)), np.inf
        while self.ahead * change > ACCURACY:
            backed = self.backup(value)
            value, change = backed, np.abs(backed - value).max()
        return value


def soft(size: int, scale: float, repeats: int) -> Iterator[Figure]:
    world = tl.object_world(size=size, seed=0)
    domain = world.domain("L1")
    reward = scale * (domain.reward_features @ world.true_weights)
    rival = ValueIteration(domain.mdp, reward)
    ours = partial(tl.solve_soft, domain.mdp, reward, accuracy=ACCURACY)
    found = ours().value
    # One part in a hundred for the rounding of the check; each answer is within 1e-8, so two are within twice that.
    check(np.abs(rival.backup(found) - found).max() <= 1.01 * ACCURACY * (1 - rival.discount), "the soft value")
    for answer in (rival.at_its_best(), rival.plain()):
        check(np.abs(answer - found).max() <= 2.01 * ACCURACY, "the rival's soft value")
    task = f"soft solution, reward x{scale:g}"
    yield ratio((task, size, "SciPy value iteration"), ours, rival.at_its_best, repeats, size == 100)
    yield ratio((task, size, "the same, plain"), ours, rival.plain, repeats)


def limited(size: int) -> tuple[tl.ObjectWorld, tl.Domain, tl.HalfSpaces]:
    world = tl.object_world(size=size, seed=0)
    domain = world.domain("L5")
    return world, domain, tl.preference_limits(domain, ALLOWANCE)


def decomposed(size: int, repeats: int) -> Iterator[Figure]:
    world, domain, limits = limited(size)
    weights = world.true_weights
    target = tl.best_policy(domain, weights, tl.no_limits(domain)).expectation.reward
    best = partial(tl.best_policy, domain, weights, limits)
    nearest = partial(tl.nearest_policy, domain, target, limits, norm=2)
    # The most reward is a number; the nearest expectation is a point, and no other is as near.
    for task, rival, ours, answer in (
        ("constrained MDP", "HiGHS", best, lambda reached: reached @ weights),
        ("projection", "Clarabel", nearest, lambda reached: reached),
    ):
        theirs = partial(ours, route="direct")
        again = tl.expectation(domain, ours().policy)
        check(limits.excess(again.both).max() <= 1e-6 * ALLOWANCE, f"the policy of the {task}")
        apart = np.abs(answer(again.reward) - answer(theirs().expectation.reward)).max()
        check(apart <= 1e-6 * np.abs(answer(again.reward)).max(), f"one optimum of the {task}")
        yield ratio((task, size, rival), ours, theirs, repeats, size == 100 and ours is best)


def check(is_right: bool, what: str) -> None:
    if not is_right:
        sys.exit(f"{what} is wrong")


def ratio(what: tuple, ours: Callable, theirs: Callable, repeats: int, must_hold: bool = False) -> Figure:
    pairs = [(timeit(ours, number=1), timeit(theirs, number=1)) for _ in range(repeats)]
    each = [slow / fast for fast, slow in pairs]
    times = tuple(1e3 * median(column) for column in zip(*pairs, strict=True))
    demand, holds = (f">= {AT_LEAST:g}", median(each) >= AT_LEAST) if must_hold else ("", True)
    return Figure(*what, median(each), demand, holds, (min(each), max(each)), times)


def memory(size: int) -> Iterator[Figure]:
    before = resident("VmRSS")
    tracemalloc.start()
    world, domain, limits = limited(size)
    reward = 5 * (domain.reward_features @ world.true_weights)
    for task, run in {
        "memory, soft solution": lambda: tl.solve_soft(domain.mdp, reward),
        "memory, constrained MDP": lambda: tl.best_policy(domain, world.true_weights, limits),
    }.items():
        tracemalloc.reset_peak()
        idle = tracemalloc.get_traced_memory()[0]
        if HIGH_WATER.exists():
            HIGH_WATER.write_text("5")
        run()
        peak = tracemalloc.get_traced_memory()[1]
        used = {"solving": peak - idle, "with the domain": peak, "resident, with it": resident("VmHWM") - before}
        for what, count in used.items():
            per_choice = count / domain.mdp.n_choices
            yield Figure(task, size, what, per_choice, f"<= {AT_MOST:g}", per_choice <= AT_MOST)
    tracemalloc.stop()


def resident(field: str) -> float:
    """Bytes resident now (VmRSS) or at most since "5" was last written to HIGH_WATER (VmHWM); 0 where none can tell."""
    lines = Path("/proc/self/status").read_text().splitlines() if HIGH_WATER.exists() else []
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(field)), 0.0)


def show(figures: list[Figure]) -> None:
    table = Table(title="The rival's time over ours; memory in bytes per choice")
    for heading in ("task", "grid", "against", "figure", "spread", "ours, ms", "rival, ms", "must hold"):
        table.add_column(heading, justify="left" if heading in ("task", "against") else "right", no_wrap=True)
    for row in figures:
        spread = "{:.1f} to {:.1f}".format(*row.spread) if row.spread else ""
        times = (f"{part:.1f}" for part in row.milliseconds) if row.milliseconds else ("", "")
        verdict = row.must_hold if row.holds else f"[red]{row.must_hold} FAILS[/red]"
        table.add_row(row.task, f"{row.grid}x{row.grid}", row.against, f"{row.figure:.1f}", spread, *times, verdict)
    Console(width=None if sys.stdout.isatty() else 130).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="The solvers' times as ratios to their rivals', and their memory.")
    parser.add_argument("--large", action="store_true", help="the soft solution at 300x300 too (two minutes)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    given = parser.parse_args()
    _warm = [*soft(30, 1.0, 1), *decomposed(30, 1)]
    # Memory first: whatever the allocator keeps from earlier work would hide some of it.
    figures = [*memory(300)]
    for size, repeats in ((30, 7), (100, 5), *([(300, 3)] if given.large else [])):
        figures += [*soft(size, 1.0, repeats), *soft(size, 5.0, repeats)]
    figures += [*decomposed(50, 5), *decomposed(100, 5)]
    if given.json:
        print(json.dumps({"figures": [asdict(row) for row in figures]}))
    else:
        show(figures)
    sys.exit(None if all(row.holds for row in figures) else "a figure misses what must hold")


if __name__ == "__main__":
    main()

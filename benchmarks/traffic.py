"""Memory bandwidth of the compiled Bellman sweeps, as a share of the bandwidth of a plain copy.

A sweep over a large grid is limited by memory, not by arithmetic. Its bandwidth is the bytes that it must read or write
once, per second. Both run in one thread; of the copy, bytes read and written both count.
"""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numpy as np

from benchmarks.measure import Figure, check, duel
from benchmarks.problems import problem
from benchmarks.rivals import ValueIteration
from tutelage.model.mdp import MDP, per_choice

# Doubles to copy: far more than any cache holds.
COPIED = 2**24
SHARE = 0.30


def swept_bytes(mdp: MDP, *, with_policy: bool) -> int:
    """Bytes of one sweep: transition, row starts, first choices, reward, value read and value written.

    A soft sweep also writes the policy (C,).
    """
    rows = mdp.transition
    first = (mdp.n_states + 1) * rows.indptr.itemsize
    return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes + first) + 8 * (
        (1 + with_policy) * mdp.n_choices + 2 * mdp.n_states
    )


def copier() -> Callable[[], None]:
    """A function that copies a large array."""
    return partial(np.copyto, np.zeros(COPIED), np.ones(COPIED))


def sweeps(size: int, repeats: int) -> Iterator[Figure]:
    """Soft and hard sweeps as the solvers run them, each paired with a copy."""
    from tutelage.bellman import backups

    asked = problem(size, "L1")
    mdp = asked.domain.mdp
    oracle = ValueIteration(mdp, asked.reward)
    value = oracle.backup(np.log(mdp.choices_per_state) / (1 - mdp.discount))
    given = (backups.CompiledOperators(mdp, per_choice(mdp, asked.reward)).problem, value)
    backed, policy, choice = np.empty(mdp.n_states), np.empty(mdp.n_choices), mdp.first_choice[:-1].copy()
    soft = partial(backups.soft_backup_loop, *given, policy, backed)
    hard = partial(backups.hard_backup_loop, *given, choice, 0.0, backed)
    right = {"soft": oracle.backup(value), "hard": oracle.choice_value(value).max(axis=0)}
    for name, sweep in (("soft", soft), ("hard", hard)):
        sweep()  # Loads compiled code.
        row = _share(name, size, mdp, sweep, repeats)
        check(np.allclose(backed, right[name], rtol=1e-12, atol=1e-12), f"the compiled {name} sweep")
        yield row


def _share(name: str, size: int, mdp: MDP, sweep: Callable[[], object], repeats: int) -> Figure:
    copy = copier()
    copy()
    times = duel(sweep, copy, repeats).times
    moved, copied = swept_bytes(mdp, with_policy=name == "soft"), 2 * 8 * COPIED
    shares = [(moved / ours) / (copied / theirs) for ours, theirs in times]
    ours, theirs = (median(column) for column in zip(*times, strict=True))
    note = f"{moved / ours / 1e9:.2f} GB/s, where a copy moves {copied / theirs / 1e9:.2f}"
    row = Figure(
        f"compiled {name} sweep",
        size,
        rival="copy",
        ours=ours,
        spread=(min(shares), max(shares)),
        value=median(shares),
        unit="of copy bandwidth",
        note=note,
    )
    return row.at_least(SHARE)

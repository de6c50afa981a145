"""Compiled loops for large MDPs. Nothing here decides anything: `mdp.chain` and `solvers.operators` choose when.

Arguments shared by all: `row`, `column`, `probability` are the CSR arrays of the transition (row[c] .. row[c+1] are the
entries of choice c, at least one), `first` is first_choice, `reward` is on choices (C,), `value` on states (S,).
Compiled on first use and cached on disk. Plain loops, no BLAS, whose threads wait for each other on a busy machine for
longer than these vectors take. Loops that take a range of states, `low` .. `high`, let go of the interpreter, so that
several may run at a time on parts of one problem (`blocks`); they are no numba-parallel loops, whose threads neither
survive a fork nor, in numba's own scheduler, several callers at a time.
"""

from tutelage.kernels.backups import hard_backup_range, soft_backup_range
from tutelage.kernels.blocks import at_a_time, block_edges, in_blocks, unsigned
from tutelage.kernels.graph import reachable
from tutelage.kernels.splitting import backward, count_parts, fill_columns, fill_weights, finish, forward, relax
from tutelage.kernels.sweeps import hard_sweeps

__all__ = [
    "at_a_time",
    "backward",
    "block_edges",
    "count_parts",
    "fill_columns",
    "fill_weights",
    "finish",
    "forward",
    "hard_backup_range",
    "hard_sweeps",
    "in_blocks",
    "reachable",
    "relax",
    "soft_backup_range",
    "unsigned",
]

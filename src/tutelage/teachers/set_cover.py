"""SCOT (Brown and Niekum 2019): the demonstrations that determine the reward as far as any can, by greedy set cover.

A policy is optimal for weights w exactly if w @ n >= 0 for all half-spaces

    n(s, c) = psi(s, c*) - psi(s, c),        psi(c) = phi(c) + discount T(c) psi,  psi(s) = the mean over the policy,

c* a choice that it takes in s and c any other: the behavioural equivalence class. Half-spaces that follow from others
are redundant (a linear program each). A demonstration shows those of the choices along its way, and the cover takes,
again and again, the candidate that shows most half-spaces that were not shown yet.

For a learner with preferences the demonstrated policy is the best that keeps them. It is optimal for the weights
(w, -u) of reward and preference features together, with u the prices of the limits; the half-spaces are those of both
kinds of features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tutelage.arrays import Flags, Matrix, Vector, set_fields
from tutelage.bellman.soft_expectations import combined_features
from tutelage.chains.expectations import occupancy, successor_features
from tutelage.constrained.problem import or_one
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, minimise_linear
from tutelage.learners.cloning import choice_counts
from tutelage.model.mdp import Domain, discounted, per_choice
from tutelage.outcomes import NotConverged
from tutelage.roles import Round
from tutelage.teachers.candidates import CandidateTeacher

# Normals of half-spaces whose unit vectors differ by less than this are one; a violation below it is rounding.
SAME_NORMAL = 1e-9


def half_spaces(domain: Domain, policy: Vector, n_features: int, taken: Flags) -> tuple[Matrix, Flags]:
    """The normals (k, d) without redundant ones, and whether taking a choice shows each of them, (C, k).

    Of the choices that are taken, (C,), and the first n_features features, those of the reward first. A normal has
    length one when each feature is in its own unit.
    """
    mdp = domain.mdp
    later = discounted(mdp, mdp.transition @ successor_features(domain, policy))
    ahead = (per_choice(mdp, combined_features(domain)) + later)[:, :n_features]
    unit = or_one(np.abs(ahead).max(axis=0))
    of_state = [np.arange(*mdp.first_choice[s : s + 2]) for s in range(mdp.n_states)]
    pairs = np.array([(c, other) for c in np.flatnonzero(taken) for other in of_state[mdp.state_of_choice[c]]])
    apart = (ahead[pairs[:, 0]] - ahead[pairs[:, 1]]) / unit
    length = np.linalg.norm(apart, axis=1)
    is_real = length > SAME_NORMAL
    units = apart[is_real] / length[is_real, None]
    _, first, kind = np.unique(np.round(units / SAME_NORMAL), axis=0, return_index=True, return_inverse=True)
    shows = np.zeros((mdp.n_choices, len(first)), dtype=np.bool_)
    shows[pairs[is_real, 0], kind.ravel()] = True
    kept = irredundant(units[first])
    return units[first][kept] * unit, shows[:, kept]


def irredundant(normals: Matrix) -> Flags:
    """(k,), the half-spaces n @ w >= 0 that do not follow from the others.

    n_i follows if no w has n_j @ w >= 0 for all other j and n_i @ w < 0: the least n_i @ w with n_i @ w >= -1 is zero.
    """
    kept = np.ones(len(normals), dtype=np.bool_)
    for i, normal in enumerate(normals):
        kept[i] = False
        rows, bound = np.vstack([-normals[kept], -normal[None]]), np.append(np.zeros(int(kept.sum())), 1.0)
        free = LinearConstraints(np.full(len(normal), -np.inf), within=rows, bound=bound)
        try:
            kept[i] = minimise_linear(normal, free).value < -0.5
        except (InfeasibleProgram, NotConverged):
            # Rounding among nearly parallel half-spaces: one too many does no harm.
            kept[i] = True
    return kept


def greedy_cover(covered: Flags) -> list[int]:
    """The rows of (n, k) to take, in order, until no row covers a column that is not covered yet."""
    order, left = [], covered.any(axis=0)
    while left.any():
        best = int(np.argmax((covered & left).sum(axis=1)))
        order.append(best)
        left = left & ~covered[best]
    return order


@dataclass(frozen=True, eq=False)
class SetCoverTeacher(CandidateTeacher):
    """SCOT: shows the candidates of the cover in order, and then random ones.

    order: the candidates of the cover. normals: (k, n), of the half-spaces of the policy that it demonstrates.
    """

    order: tuple[int, ...] = field(init=False)
    normals: Matrix = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        n_features, taken = self.domain.n_reward, self.shown_policy > 0
        if self.is_limited:
            # Where it never is, the best policy within limits may do anything.
            visits = occupancy(self.domain.mdp, self.shown_policy)
            n_features, taken = n_features + self.domain.n_preference, visits > SAME_NORMAL * visits.sum()
        normals, shows = half_spaces(self.domain, self.shown_policy, n_features, taken)
        covered = [shows[choice_counts(self.domain, lesson) > 0].any(axis=0) for lesson in self.candidates]
        set_fields(self, normals=normals, order=tuple(greedy_cover(np.array(covered))))

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """One for the next candidate of the cover; random after its end."""
        if len(rounds) < len(self.order):
            return np.asarray(np.arange(len(self.candidates)) == self.order[len(rounds)], dtype=np.float64)
        return super().scores(rounds)

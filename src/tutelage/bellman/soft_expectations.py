"""The soft policy's feature expectation and its derivatives in the weights, from one factorisation.

For weights w let V be the soft value of the reward features @ w, pi its policy, d its visits to states, z those to
choices. With F = (I - discount P_pi)^-1 features_pi, the expected feature counts from each state, and for each choice
its *advantage*

    A(c) = features(c) + discount * T(c) @ F - F(s(c)),        the mean of A over pi(. | s) being zero,

the soft return P0 @ V is convex in w, its gradient is the expectation mu(pi_w) = P0 @ F, and

    d mu / d w = sum over c of z(c) A(c) A(c)'                 its Hessian, since d log pi(c) / d w = A(c).

The derivative of any other expectation, of features B, is the policy gradient sum over c of z(c) A_B(c) A(c)'.

Without discount, and where each choice c of s leads to one state t(c), z = exp V solves a linear system:

    z(s) = sum over choices c of s of exp r(c) z(t(c)),        z = 1 at the ends              (recursive logit)

Domains may be journeys on one network and differ only in where they end. Let M(s, t) be the sum of exp r(c) over the
choices from s to t, W = (I - M)^-1, E the ends of a journey and N its other states. Then

    (I - M_NN)^-1 = W_NN - W_NE (W_EE)^-1 W_EN

and the moves of its soft policy are P = D^-1 M_NN D with D = diag z. So one sparse LU of I - M serves all journeys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from tutelage import arrays
from tutelage.arrays import EPSILON, ArrayLike, Flags, Indices, Matrix, Readable, Vector, freeze, max_abs, vector
from tutelage.bellman.endless import refuse_endless
from tutelage.bellman.equations import Optimum, solve_soft, uncounted
from tutelage.chains.resolvent import BY_DEGREE, Resolvent, policy_resolvent
from tutelage.model.mdp import MDP, Domain, combined_features, discounted, per_choice
from tutelage.model.policy import max_by_state, sum_by_state
from tutelage.outcomes import Ended

# The accuracy of derivatives that take iterations.
FIVE_DIGITS = 1e-5
# The largest exponent of exp.
LARGEST_POWER = 700.0


@dataclass(frozen=True, slots=True, eq=False)
class SoftExpansion(Readable):
    """The soft return around some weights, to second order.

    soft_return: the mean of the soft value at the start. expectation: (d,), its gradient. jacobian: (d, d), its
    Hessian, positive semi-definite. solved: the soft optimum, with its policy and certificate. advantages: (C, d).
    visits: (C,), the occupancy. ahead: (S, d), F, which is also the derivative of V. Where the chain is not factorised,
    F, the advantages and the Hessian have at least five correct digits; the expectation keeps full accuracy.
    """

    weights: Vector
    soft_return: float
    expectation: Vector
    jacobian: Matrix
    solved: Optimum
    advantages: Matrix
    visits: Vector
    ahead: Matrix
    inverse: Resolvent

    @property
    def value(self) -> Vector:
        """(S,), the soft value."""
        return self.solved.value


def soft_expansion(
    mdp: MDP, features: Matrix, weights: ArrayLike, *, accuracy: float = 1e-10, near: SoftExpansion | None = None
) -> SoftExpansion:
    """Value, gradient and Hessian of the soft return at the weights (d,); features (S, d) or (C, d).

    near: the expansion at nearby weights, as a warm start.
    """
    if not isinstance(features, np.ndarray) or features.ndim != 2:
        features = arrays.floats(features, "features", ndim=2)
    checked = vector(weights, "weights", features.shape[1], "features")
    # The value near these weights, to first order.
    start = None if near is None else near.value + near.ahead @ (checked - near.weights)
    solved = solve_soft(mdp, features @ checked, accuracy=accuracy, start=start)
    return expansion_around(mdp, features, checked, solved, policy_resolvent(mdp, solved.policy))


def expansion_around(mdp: MDP, features: Matrix, checked: Vector, solved: Optimum, inverse: Resolvent) -> SoftExpansion:
    """The expansion at weights (d,), from the soft optimum there and the resolvent of its policy."""
    visits = per_choice(mdp, inverse.visits(mdp.departing)) * solved.policy
    ahead, advantages = _advantages(mdp, features, solved.policy, inverse)
    expectation = mdp.initial @ ahead
    if not inverse.is_exact:
        # mu = P0 @ F + z @ A has only the product of the errors of z and F: with the exact F the mean of A is zero.
        expectation = expectation + visits @ advantages
    return SoftExpansion(
        weights=checked,
        soft_return=float(mdp.initial @ solved.value),
        expectation=freeze(expectation),
        jacobian=freeze(advantages.T @ (visits[:, None] * advantages)),
        solved=solved,
        advantages=freeze(advantages),
        visits=freeze(visits),
        ahead=freeze(ahead),
        inverse=inverse,
    )


def expectation_derivative(mdp: MDP, expansion: SoftExpansion, features: Matrix) -> Matrix:
    """(k, d), the policy gradient: the derivative in the weights of the expectation of features (S, k) or (C, k)."""
    _, advantages = _advantages(mdp, features, expansion.solved.policy, expansion.inverse)
    return advantages.T @ (expansion.visits[:, None] * expansion.advantages)


def _advantages(mdp: MDP, features: Matrix, policy: Vector, inverse: Resolvent) -> tuple[Matrix, Matrix]:
    """F (S, d) and A (C, d)."""
    here = per_choice(mdp, features)
    ahead = inverse.values(sum_by_state(mdp, policy[:, None] * here), accuracy=FIVE_DIGITS)
    return ahead, here + discounted(mdp, mdp.rows @ ahead) - per_choice(mdp, ahead)


@dataclass(frozen=True, slots=True, eq=False)
class Journeys:
    """Domains whose features have the same weights.

    network: (n, 2 + d), if they differ in their ends only: from, to and features of the moves between states that no
    journey, or not every one, ends in; None if they differ in more, or no linear system has their values.
    """

    domains: tuple[Domain, ...]
    features: tuple[Matrix, ...]
    network: Matrix | None

    @staticmethod
    def of(domains: Sequence[Domain]) -> "Journeys":
        features = tuple(combined_features(domain) for domain in domains)
        return Journeys(tuple(domains), features, _shared_moves([domain.mdp for domain in domains], features))

    def expand(self, weights: Vector, near: Sequence[SoftExpansion]) -> Iterator[SoftExpansion]:
        """The soft policy of each domain at the weights (d,). near: those at nearby weights, if known.

        Raises `EndlessValue` where going on for ever pays.
        """
        factors = None if self.network is None else _factorised(self.network, self.domains[0].mdp.n_states, weights)
        for place, (domain, features) in enumerate(zip(self.domains, self.features, strict=True)):
            solved = None if factors is None else _solve(factors, domain.mdp, features @ weights)
            if solved is None:
                yield soft_expansion(domain.mdp, features, weights, accuracy=1e-13, near=near[place] if near else None)
            else:
                yield expansion_around(domain.mdp, features, weights, *solved)


def _shared_moves(mdps: Sequence[MDP], features: Sequence[Matrix]) -> Matrix | None:
    """The network of journeys, if they have one."""
    n_states = mdps[0].n_states
    for mdp in mdps:
        if np.any(mdp.discount != 1.0) or mdp.transition.nnz != mdp.n_choices or mdp.n_states != n_states:
            return None
    tables = [_moves(mdp, values) for mdp, values in zip(mdps, features, strict=True)]
    is_first_end = _flags(mdps[0])
    others = [table[is_first_end[table[:, :2].astype(np.int64)].any(axis=1)] for table in tables[1:]]
    known = _ordered(np.vstack([tables[0], np.unique(np.vstack([tables[0][:0], *others]), axis=0)]))
    begin, end = known[:, :2].T.astype(np.int64)
    for mdp, table in zip(mdps, tables, strict=True):
        is_end = _flags(mdp)
        if not np.array_equal(known[~(is_end[begin] | is_end[end])], table):
            return None
    return known


def _factorised(network: Matrix, n_states: int, weights: Vector) -> linalg.SuperLU | None:
    """The sparse LU of I - M at the weights (d,); None where it has none."""
    reward = np.ascontiguousarray(network[:, 2:]) @ weights
    if reward.max(initial=0.0) > LARGEST_POWER:
        return None
    begin, end = network[:, :2].T.astype(np.int64)
    moves = sparse.csc_array((np.exp(reward), (begin, end)), shape=(n_states, n_states))
    try:
        system = sparse.csc_array(sparse.eye_array(n_states, format="csc") - moves)
        return linalg.splu(system, permc_spec=BY_DEGREE, options={"SymmetricMode": True})
    except RuntimeError:
        # Exactly singular.
        return None


def _flags(mdp: MDP) -> Flags:
    return np.isin(np.arange(mdp.n_states), mdp.ends)


def _moves(mdp: MDP, features: Matrix) -> Matrix:
    """(n, 2 + d), from, to and features of the choices between states that are no ends, in order."""
    state, after = mdp.state_of_choice, mdp.transition.indices
    is_end = _flags(mdp)
    inner = ~(is_end[state] | is_end[after])
    return _ordered(np.column_stack([state, after, per_choice(mdp, features)])[inner])


def _ordered(table: Matrix) -> Matrix:
    return table[np.lexsort(table.T[::-1])]


def _without_ends(factors: linalg.SuperLU, ends: Indices, right: Vector, kind: str = "N") -> Vector:
    """(I - M_NN)^-1 right on the states N, or with the transpose for the kind "T"; not defined at the ends."""
    units = np.zeros((len(right), len(ends)))
    units[ends, np.arange(len(ends))] = 1.0
    columns, inner = factors.solve(units, kind), right.copy()
    inner[ends] = 0.0
    whole = factors.solve(inner, kind)
    return np.asarray(whole - columns @ np.linalg.solve(columns[ends], whole[ends]))


def _shared_inverse(factors: linalg.SuperLU, z: Vector, ends: Indices) -> Resolvent:
    """The resolvent of the soft policy of one journey, from the LU of I - M and z (S,), one at the ends."""

    def solve(right: Vector, is_visits: bool, *_: object) -> Vector:
        scale = z if right.ndim == 1 else z[:, None]
        if is_visits:
            solved = scale * _without_ends(factors, ends, right / scale, "T")
        else:
            solved = _without_ends(factors, ends, scale * right) / scale
        solved[ends] = right[ends]
        return solved

    return Resolvent("factors", solve)


def _solve(factors: linalg.SuperLU, mdp: MDP, reward: Vector) -> tuple[Optimum, Resolvent] | None:
    """The soft optimum of one journey, and its resolvent; None where z has no solution in doubles."""
    on_choices = per_choice(mdp, reward)
    after = mdp.transition.indices
    arriving = sum_by_state(mdp, np.where(_flags(mdp)[after], np.exp(on_choices), 0.0))
    try:
        z = _without_ends(factors, mdp.ends, arriving)
    except np.linalg.LinAlgError:
        # I - M_NN is singular: the value is infinite, which the solution of this journey alone says by name.
        return None
    z[mdp.ends] = 1.0
    if (z < -1e-9 * max_abs(z)).any():
        # Every state leads to an end, so a solution that is not negative is positive, and M_NN z < z shows that the
        # powers of M_NN vanish. Otherwise they do not, and z is infinite.
        power = np.exp(on_choices - per_choice(mdp, max_by_state(mdp, on_choices)))
        likely = power / per_choice(mdp, sum_by_state(mdp, power))
        refuse_endless(mdp, z <= 0, likely, "the soft value, which counts entropy,")
    if not (z > 0).all() or not np.isfinite(z).all():
        return None
    inverse = _shared_inverse(factors, z, mdp.ends)
    value = np.log(z)
    choice_value = on_choices + value[after]
    policy = np.exp(choice_value - per_choice(mdp, value) - uncounted(mdp))
    total = sum_by_state(mdp, policy)
    residual = max_abs(np.log(total))
    # V + t e is above the soft value for small t > residual, with e the expected steps (`endless`).
    bound = 2 * (residual + EPSILON) * float(inverse.values(np.ones(mdp.n_states)).max())
    policy /= per_choice(mdp, total)
    frozen = freeze(value), freeze(choice_value), freeze(policy)
    return Optimum(*frozen, residual, bound, 1, Ended.CONVERGED), inverse

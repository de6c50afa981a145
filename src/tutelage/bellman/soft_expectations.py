"""The soft policy's feature expectation and its derivatives in the weights, from one factorisation.

For weights w let V be the soft value of the reward features @ w, pi its policy, d its visits to states, z those to
choices. With F = (I - discount P_pi)^-1 features_pi, the expected feature counts from each state, and for each choice
its *advantage*

    A(c) = features(c) + discount * T(c) @ F - F(s(c)),        the mean of A over pi(. | s) being zero,

the soft return P0 @ V is convex in w, its gradient is the expectation mu(pi_w) = P0 @ F, and

    d mu / d w = sum over c of z(c) A(c) A(c)'                 its Hessian, since d log pi(c) / d w = A(c).

The derivative of any other expectation, of features B, is the policy gradient sum over c of z(c) A_B(c) A(c)'.
"""

from dataclasses import dataclass, fields

import numpy as np

from tutelage.arrays import ArrayLike, Flags, Indices, Matrix, Readable, Vector, check_length, floats, freeze
from tutelage.bellman.equations import Optimum, first_value, solve_soft, solve_soft_each
from tutelage.bellman.operators import COMPILED_ABOVE
from tutelage.chains.resolvent import Resolvent, policy_resolvent
from tutelage.model.mdp import MDP, Domain, discounted, per_choice
from tutelage.model.policy import sum_by_state

# The accuracy of derivatives that take iterations.
FIVE_DIGITS = 1e-5


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


@dataclass(frozen=True, slots=True, eq=False)
class SoftExpansions:
    """The soft return around each of several weights, to second order; the names are those of `SoftExpansion`.

    weights, expectation: (n, d). soft_return: (n,). jacobian: (n, d, d). value: (n, S). ahead: (n, S, d).
    """

    weights: Matrix
    soft_return: Vector
    expectation: Matrix
    jacobian: Matrix
    value: Matrix
    ahead: Matrix

    def __len__(self) -> int:
        return len(self.weights)

    def taken(self, which: Indices) -> "SoftExpansions":
        """Some of them."""
        return SoftExpansions(*(getattr(self, part.name)[which] for part in fields(self)))

    def merged(self, which: Indices, others: "SoftExpansions", is_new: Flags) -> "SoftExpansions":
        """These, with the rows `which` replaced by the others where those are new."""
        parts = []
        for part in fields(self):
            rows = getattr(self, part.name).copy()
            rows[which[is_new]] = getattr(others, part.name)[is_new]
            parts.append(rows)
        return SoftExpansions(*parts)


def combined_features(domain: Domain) -> Matrix:
    """(S, d_r + d_c), or (C, d_r + d_c) where either kind sits on choices; reward features first."""
    both = (domain.reward_features, domain.preference_features)
    if all(len(features) == domain.mdp.n_states for features in both):
        return np.hstack(both)
    return np.hstack([per_choice(domain.mdp, features) for features in both])


def soft_expansion(
    mdp: MDP, features: Matrix, weights: ArrayLike, *, accuracy: float = 1e-10, near: SoftExpansion | None = None
) -> SoftExpansion:
    """Value, gradient and Hessian of the soft return at the weights (d,); features (S, d) or (C, d).

    near: the expansion at nearby weights, as a warm start.
    """
    checked = floats(weights, "weights", ndim=1)
    check_length(checked, features.shape[1], "weights", "features")
    # The value near these weights, to first order.
    start = None if near is None else near.solved.value + near.ahead @ (checked - near.weights)
    solved = solve_soft(mdp, features @ checked, accuracy=accuracy, start=start)
    return expansion_around(mdp, features, checked, solved, policy_resolvent(mdp, solved.policy))


def expansion_around(mdp: MDP, features: Matrix, checked: Vector, solved: Optimum, inverse: Resolvent) -> SoftExpansion:
    """The expansion at weights (d,), from the soft optimum there and the resolvent of its policy."""
    visits = per_choice(mdp, inverse.visits(mdp.initial)) * solved.policy
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


def soft_expansions(
    mdp: MDP, features: Matrix, weights: Matrix, *, accuracy: float = 1e-10, near: SoftExpansions | None = None
) -> SoftExpansions:
    """`soft_expansion` at each of the weights (n, d), in one iteration where the MDP is small.

    near: the expansions at nearby weights, as a warm start. If they are fewer, they belong to the first weights.
    """
    first = first_value(mdp, per_choice(mdp, features @ weights.T)).T.copy()
    if near is not None:
        moved = weights[: len(near)] - near.weights
        first[: len(near)] = near.value + np.einsum("nsd,nd->ns", near.ahead, moved)
    if mdp.n_states > COMPILED_ABOVE:
        return _one_by_one(mdp, features, weights, first, accuracy)
    here = per_choice(mdp, features)
    solved = solve_soft_each(mdp, here @ weights.T, first.T, accuracy=accuracy)
    policies, (n, d) = solved.policy.T.copy(), weights.shape
    inverses = [policy_resolvent(mdp, policy) for policy in policies]
    visits = np.array([inverse.visits(mdp.initial) for inverse in inverses])
    if len(features) == mdp.n_states:
        ahead = np.array([inverse.values(features) for inverse in inverses])
    else:
        means = [sum_by_state(mdp, policy[:, None] * here) for policy in policies]
        ahead = np.array([inverse.values(mean) for inverse, mean in zip(inverses, means, strict=True)])
    by_state = ahead.transpose(1, 0, 2).reshape(-1, n * d)
    advantages = discounted(mdp, mdp.rows @ by_state) - per_choice(mdp, by_state)
    advantages = (advantages.reshape(-1, n, d) + here[:, None]).transpose(1, 0, 2).copy()
    weighted = (per_choice(mdp, visits.T).T * policies)[:, :, None] * advantages
    return SoftExpansions(
        weights=weights,
        soft_return=mdp.initial @ solved.value,
        expectation=mdp.initial @ ahead,
        jacobian=weighted.transpose(0, 2, 1) @ advantages,
        value=solved.value.T,
        ahead=ahead,
    )


def _one_by_one(mdp: MDP, features: Matrix, weights: Matrix, first: Matrix, accuracy: float) -> SoftExpansions:
    """`soft_expansions` from the values first (n, S)."""
    each = []
    for point, start in zip(weights, first, strict=True):
        solved = solve_soft(mdp, features @ point, accuracy=accuracy, start=start)
        each.append(expansion_around(mdp, features, point, solved, policy_resolvent(mdp, solved.policy)))
    return SoftExpansions(
        weights=weights,
        soft_return=np.array([around.soft_return for around in each]),
        expectation=np.array([around.expectation for around in each]),
        jacobian=np.array([around.jacobian for around in each]),
        value=np.array([around.solved.value for around in each]),
        ahead=np.array([around.ahead for around in each]),
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

"""What one answer of a soft learner determines: its weights, up to directions that change nothing (docs/inference.md).

The learner of Sec. 3.2 answers a lesson mu_hat with the soft policy of weights (a, -b) that satisfy (KKT)

    a_k = C_r sign(mu_hat_k - mu_k)   where the answer misses the lesson,   |a_k| <= C_r     where it matches
    b_j = C_c   where mu_c[j] > delta_j,      b_j = 0   where mu_c[j] < delta_j,   0 <= b_j <= C_c   where equal.

So one answer has the unknowns x = (C_r, the a_k that match, b), and its weights are L x: the features that miss the
lesson share one unknown. The x of the answer minimises the convex function

    f(x) = P0 @ V(L x) - mu @ L x                 gradient: L' (mu(L x) - mu)          Hessian: L' J L.

An expectation known to within e determines the weights along the eigenvector q of L' J L, eigenvalue l, to within
e / l, in units of the range of mu over all policies. A direction whose error exceeds 0.5 is not determined: the Hessian
is then no longer that of the true weights.

With F the expected counts from each state, the count of a trajectory is F(s_0) plus the discounted sum of
D_t = phi(c_t) + discount F(s_t+1) - F(s_t), which has mean zero, given s_t. So the D_t are uncorrelated, and with the
advantage A and the occupancy z2 at the squared discount

    Cov = Cov_P0(F) + sum over c of z2(c) (A(c) A(c)' + discount^2 Cov over s' ~ T(c) of F(s'))

The mean of n trajectories has Cov / n. Features on arrival add to it (`_arrival_covariance`).
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tutelage.arrays import EPSILON, Flags, Matrix, Vector, freeze, max_abs
from tutelage.bellman.equations import solve_hard
from tutelage.bellman.soft_expectations import SoftExpansion
from tutelage.chains.expectations import occupancy
from tutelage.constrained.problem import or_one, sizes
from tutelage.convex.blocks import Block
from tutelage.learners.soft_program import SoftMinimum, SoftProgram
from tutelage.model.inputs import at_entries
from tutelage.model.mdp import MDP, Domain, combined_features
from tutelage.outcomes import EndlessValue, NotConverged

# No finite weights match an answer where the search passes this, in units of one over the range of the feature.
LARGEST_WEIGHT = 1e5


@dataclass(frozen=True, slots=True, eq=False)
class Scales:
    """low, high: (d,), the ends of the range of each feature's expectation over all policies. slack: (d,), how far one
    may be from the exact optimality conditions. unit: (d,), the range, or for a constant feature its size.
    """

    low: Vector
    high: Vector
    unit: Vector
    slack: Vector
    is_constant: Flags


@lru_cache(maxsize=16)
def feature_scales(domain: Domain) -> Scales:
    """The range of every feature's expectation, by two plain MDPs for each; infinite where going on collects more."""
    features = combined_features(domain)
    high, low = (s * np.array([_most(domain.mdp, s * feature) for feature in features.T]) for s in (1.0, -1.0))
    largest = np.abs(features).max(axis=0)
    apart = high - low
    is_constant = (apart <= 1e-9 * (np.abs(low) + np.abs(high)) + 1e-300) & np.isfinite(apart)
    unit = np.where(is_constant, or_one(largest), np.where(np.isinf(apart), sizes(domain), apart))
    # A smaller difference of expectations is an error of the learner's solver.
    slack = 1e-8 * np.maximum(largest, unit)
    return Scales(freeze(low), freeze(high), freeze(unit), freeze(slack), freeze(is_constant))


def _most(mdp: MDP, reward: Vector) -> float:
    try:
        return float(mdp.initial @ solve_hard(mdp, reward).value)
    except EndlessValue:
        return np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What the answer seen (d,) to the lesson shown (d_r,) determines about the weights.

    missed: (d_r,), the sign of mu_hat - mu, zero where they match. lift: (d, n), L, in units; the last d_c columns are
    those of b. point: (n,), the x found, in units: x = point / unit. directions: (k, n), orthonormal, along which x is
    known to within `error` (k,). residual: the largest |mu(L x) - mu|, relative to its range. entropy: that of the
    policy. floor: (d_c,), lower ends of b. blur: how far mu_c may be from that of the learner's exact answer.
    """

    shown: Vector
    seen: Vector
    missed: Vector
    lift: Matrix
    unit: Vector
    point: Vector
    directions: Matrix
    error: Vector
    residual: float
    entropy: float
    floor: Vector
    blur: float = 0.0


@lru_cache(maxsize=256)
def recover(domain: Domain, lesson: tuple[float, ...], response: tuple[float, ...], accuracy: float) -> Answer:
    """What the answer mu (d,) to a lesson mu_hat (d_r,) determines. accuracy: the error of mu relative to its range."""
    d_r, d_c = domain.n_reward, domain.n_preference
    shown, seen = np.array(lesson), np.array(response)
    scales = feature_scales(domain)
    gap = shown - seen[:d_r]
    missed = np.where(np.abs(gap) > 10 * scales.slack[:d_r] + accuracy * scales.unit[:d_r], np.sign(gap), 0.0)
    lift, unit = _unknowns(domain, scales, missed)
    n_shared = int(missed.any())
    parts = ((n_shared, False), (len(unit) - d_c - n_shared, True), (d_c, False))
    blocks = [Block(np.zeros(n), LARGEST_WEIGHT, np.inf, is_signed, np.arange(n)) for n, is_signed in parts]
    program = SoftProgram(domain, np.zeros(len(lift)), lift, lift.T @ seen, blocks, unit=np.ones(len(unit)))
    minimum = program.minimise(np.zeros(len(unit)), tolerance=accuracy / 10)
    point, soft = minimum.answer.x, minimum.answer.here.source
    if max_abs(point) >= LARGEST_WEIGHT:
        raise NotConverged("no finite weights have this expectation", residual=np.inf, n_steps=0)
    residual = max_abs((soft.expectation - seen) / scales.unit)
    exactness = max(accuracy, residual)
    values, vectors = np.linalg.eigh(lift.T @ soft.jacobian @ lift)
    # Four times the linear estimate.
    error = 4.0 * np.sqrt(len(values)) * exactness / np.maximum(values, 1e-300)
    kept = error <= 0.5
    entropy = soft.soft_return - float(lift @ point @ soft.expectation)
    is_open = np.linalg.norm(vectors.T[kept], axis=0) < 1 - 1e-9
    floor = np.zeros(d_c)
    for j, column in enumerate(range(len(point) - d_c, len(point))):
        if is_open[column] and point[column] > 1e-3:
            floor[j] = _least(program, seen, minimum, column, exactness) / unit[column]
    return Answer(shown, seen, missed, lift, unit, point, vectors.T[kept], error[kept], residual, entropy, floor)


def _least(program: SoftProgram, seen: Vector, minimum: SoftMinimum, column: int, error: float) -> float:
    """A lower end of b_j = x[column], in units, in the level set of f that holds the true x.

    With D the largest distance |x - point|_1 and e the error of mu, f(x) <= f(point) + e D. For every rho > 0 and every
    point y, convexity gives f(x) + rho x_j >= f(y) + rho y_j + g @ (x - y), g the gradient at y. So

        x_j >= y_j + (f(y) - f(point) - e D + min of g @ (x - y)) / rho

    whether or not y is the exact minimum of the tilted function. The minimum is at least -D times the largest entry of
    g against which x can move, less g_i y_i where x_i is at least zero.
    """
    point, soft, lift = minimum.answer.x, minimum.answer.here.source, program.lift
    *others, last = program.blocks
    is_signed = np.concatenate([np.full(len(block), block.is_signed) for block in program.blocks])
    # The true x is taken to be within this distance.
    furthest = 1e3 * (1 + max_abs(point))
    lowest = soft.soft_return - float(seen @ lift @ point)
    height = error * furthest
    floor = 0.0
    for rho in height * np.array([0.1, 1.0, 10.0, 100.0]):
        priced = replace(last, slope=rho * np.eye(len(point))[column, len(point) - len(last) :])
        try:
            minimum = replace(program, blocks=[*others, priced]).minimise(point, soft, tolerance=1e-2 * rho / furthest)
        except NotConverged:
            break
        point, soft = minimum.answer.x, minimum.answer.here.source
        gradient = lift.T @ (soft.expectation - seen)
        gradient[column] += rho
        is_against = is_signed | (gradient < 0)
        missing = furthest * max_abs(gradient[is_against])
        missing += float((gradient * point)[~is_against].sum())
        rounding = 32 * EPSILON * max_abs(soft.solved.value) + 2 * soft.solved.error_bound
        above = soft.soft_return - float(seen @ lift @ point) - lowest - rounding
        floor = max(floor, float(point[column]) + (above - height - missing) / rho)
    return floor


@lru_cache(maxsize=256)
def sampling_weight(domain: Domain, seen: tuple[float, ...], n_seen: int, n: int) -> Matrix:
    """W (n_seen, d), the inverse root of the covariance K of the first n_seen entries of mu_hat, of n trajectories.

    K is that of the soft policy that explains them. No finite weights may match mu_hat, which its noise can move beyond
    all policies. So the policy maximises H(pi) - 1/2 |W (mu - mu_hat)|^2, and its weights are W'x with

        x = W (mu_hat - mu)                 the deviations in standard errors, of about one each

    K is that of the policy itself, by iteration from the most random one, so that nothing else limits the weights.
    """
    kept = np.eye(len(seen))[:n_seen]
    block = Block(np.zeros(n_seen), np.inf, np.inf, True, np.arange(n_seen), curvature=1.0)
    zero = np.zeros(len(seen))
    whole = Block(zero, np.inf, np.inf, True, np.arange(len(seen)))
    # Where going on for ever would pay, with as small a cost as is enough.
    soft = SoftProgram(domain, zero, np.eye(len(seen)), zero, [whole]).evaluated(zero).answer.here.source
    for _ in range(6):
        covariance = count_covariance(domain, soft) / n + np.diag(rare_variance(domain, n))
        seen_covariance = kept @ covariance @ kept.T
        try:
            root = np.linalg.cholesky(seen_covariance)
        except np.linalg.LinAlgError:
            # Without correlations, where rounding hides whether they are possible.
            root = np.diag(np.sqrt(np.diag(seen_covariance)))
        weight = np.linalg.inv(root) @ kept
        program = SoftProgram(domain, zero, weight.T, weight @ seen, [block], unit=np.ones(n_seen))
        soft = program.minimise(root.T @ soft.weights[:n_seen], soft, tolerance=1e-3).answer.here.source
    return weight


def rare_variance(domain: Domain, n: int) -> Vector:
    """(d,), the variance of the mean of n trajectories of which about one meets a feature once."""
    # Beyond a million trajectories that is less than the rounding errors of an expectation.
    return or_one(np.abs(combined_features(domain)).max(axis=0) / min(n, 10**6)) ** 2


def _unknowns(domain: Domain, scales: Scales, missed: Vector) -> tuple[Matrix, Vector]:
    """L (d, n) and the units (n,): C_r where a feature is missed, each matched a_k, each b_j."""
    missed = np.append(missed, np.zeros(domain.n_preference))
    sign = np.repeat([1.0, -1.0], [domain.n_reward, domain.n_preference])
    lift = np.diag(sign)[:, missed == 0]
    unit = np.abs(lift.T) @ scales.unit
    if missed.any():
        lift = np.column_stack([missed, lift])
        unit = np.append(scales.unit[missed != 0].max(), unit)
    return lift / unit, unit


def count_covariance(domain: Domain, soft: SoftExpansion, *, given_starts: bool = False) -> Matrix:
    """(d, d), of one trajectory's discounted counts. given_starts: given s_0, so without Cov_P0(F)."""
    mdp, ahead = domain.mdp, soft.ahead
    squared = mdp.discount**2
    visits = soft.visits if np.all(squared == 1) else occupancy(replace(mdp, discount=squared), soft.solved.policy)
    weight = visits * squared
    expected = mdp.rows @ ahead
    later = ahead.T @ ((mdp.rows.T @ weight)[:, None] * ahead) - expected.T @ (weight[:, None] * expected)
    apart = (ahead - mdp.initial @ ahead) * (not given_starts)
    first = apart.T @ (mdp.initial[:, None] * apart)
    chosen = soft.advantages.T @ (visits[:, None] * soft.advantages)
    return first + chosen + later + _arrival_covariance(domain, visits, ahead)


def _arrival_covariance(domain: Domain, visits: Vector, ahead: Matrix) -> Matrix:
    """(d, d), what features on arrival add: D_t then has phi(c_t, s_t+1), not its mean given c_t.

    visits: (C,), z2. With e = phi(c, s') - phi(c), which has mean zero given c, the covariance over s' of
    e + discount F(s') has E[e e'] and discount (E[e F'] + E[F e']) besides that of discount F.
    """
    mdp, rows = domain.mdp, domain.mdp.transition
    preferences = [(domain.n_reward + column, apart) for column, apart in domain.deviations("preference")]
    parts = [*domain.deviations("reward"), *preferences]
    added = np.zeros((ahead.shape[1], ahead.shape[1]))
    chance = np.repeat(visits, np.diff(rows.indptr)) * rows.data
    for i, apart in parts:
        weighted = at_entries(rows, chance * apart.data)
        cross = (weighted.T @ np.broadcast_to(mdp.discount, mdp.n_choices)) @ ahead
        added[i] += cross
        added[:, i] += cross
        for j, other in parts:
            added[i, j] += float(weighted.data @ other.data)
    return added

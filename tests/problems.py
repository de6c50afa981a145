"""Random problems for learners and teachers, and the published worlds with an allowance of 2.5 (Sec. 6.2).

The learning problems cover every model: norms, penalties, allowances, features on states and on choices.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse
from strategies import add_features, build_mdp, random_domain, random_mdp, random_policy

from tutelage.arrays import Vector
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import expectation
from tutelage.constrained.occupancy_polytope import best_policy
from tutelage.constrained.problem import HalfSpaces, preference_limits
from tutelage.environments.object_world import object_world
from tutelage.inference.misfit import Evidence
from tutelage.learners.exact import ApproximateHardLearner, HardLearner, SoftLearner
from tutelage.learners.penalties import Mismatch, Preference
from tutelage.model.mdp import MDP, Domain
from tutelage.model.policy import uniform_policy
from tutelage.roles import Learner, Lesson, Response, Round
from tutelage.teachers.fixed import AgnosticTeacher
from tutelage.transcripts import Transcript

ALLOWANCE = 2.5
# An allowance that no policy reaches: a preference that a learner does not have.
ABSENT = 1e7
NORMS = (1, 2, math.inf)
KINDS = ("generic", "squared, hard preferences", "no allowance", "soft", "exact match")


def random_domain_of(rng, seed, *, max_states=12):
    """d_r from 1 to 5 and d_c from 0 to 6; each kind of feature on states or on choices."""
    mdp = random_mdp(rng, max_states=max_states, max_choices=4)
    # Above 0.97 the cone solver is not accurate enough.
    mdp = MDP.from_choices(mdp.transition, mdp.first_choice, mdp.initial, np.minimum(mdp.discount, 0.97))
    return add_features(
        rng,
        mdp,
        n_reward=int(rng.integers(1, 6)),
        n_preference=int(rng.integers(0, 7)),
        reward_on_choices=bool(seed % 2),
        preference_on_choices=bool(seed // 2 % 2),
    )


def random_learning_problem(seed):
    """A domain, a mismatch, a preference and a reward expectation, reachable by a policy or not."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 5]
    domain = random_domain_of(rng, seed)
    policy = expectation(domain, random_policy(rng, domain.mdp))
    size = np.abs(policy.reward).max()
    is_reachable = kind == "exact match" or rng.random() < 0.5
    shown = policy.reward + (0.0 if is_reachable else 0.3 * size * rng.normal(size=domain.n_reward))
    is_hard = kind == "squared, hard preferences" or (kind == "exact match" and rng.random() < 0.5)
    mismatch = random_mismatch(rng, kind, seed, 0.1 * rng.integers(2) * np.abs(policy.reward))
    allowance = policy.preference * (1.02 if is_hard else rng.choice([0.0, 0.5, 1.05]))
    penalty = math.inf if is_hard else 10 ** rng.uniform(-1, 1)
    return domain, mismatch, Preference(norm=NORMS[seed // 3 % 3], penalty=penalty, allowance=allowance), shown


def random_mismatch(rng, kind, seed, allowance):
    penalty = 10 ** rng.uniform(-1, 1)
    if kind == "generic":
        return Mismatch(norm=NORMS[seed % 3], penalty=penalty, allowance=allowance)
    if kind == "squared, hard preferences":
        return Mismatch(norm=2, penalty=penalty, allowance=allowance, squared=True)
    if kind == "no allowance":
        return Mismatch(norm=NORMS[seed % 3], penalty=penalty)
    if kind == "soft":
        return Mismatch(norm=1, penalty=penalty)
    return Mismatch(allowance=allowance)


@dataclass(frozen=True)
class TeachingProblem:
    """A learner that projects onto the policies within `limits`, and the most reward that it can be taught."""

    domain: Domain
    true_weights: Vector
    limits: HalfSpaces
    learner: HardLearner
    aware: float

    @property
    def most_lost(self) -> float:
        """The largest reward lost by a distance of one: norm_2(w*)."""
        return float(np.linalg.norm(self.true_weights))

    def reward_of(self, response: Response) -> float:
        """The reward of the learner's own policy, also where only samples of it were seen."""
        return float(self.true_weights @ expectation(self.domain, response.policy).reward)

    def taught(self, lesson: Lesson, learner: Learner) -> float:
        """The reward of a learner after one lesson."""
        return self.reward_of(learner.respond(lesson))


def teaching_problem(domain, true_weights, allowance):
    limits = preference_limits(domain, allowance)
    aware = best_policy(domain, true_weights, limits).value
    return TeachingProblem(domain, np.asarray(true_weights), limits, HardLearner(domain, allowance), aware)


def random_problem(seed):
    """A random domain, weights of either sign, and an allowance just above that of a policy of least reward; most bind.

    Even seeds have two reward features; odd seeds have three, and few choices, because the polytope has more corners.
    """
    rng = np.random.default_rng(seed)
    n_reward, max_choices = (3, 2) if seed % 2 else (2, 3)
    domain = random_domain(rng, max_states=6, max_choices=max_choices, n_reward=n_reward, n_preference=2)
    weights = rng.normal(size=n_reward)
    worst = solve_hard(domain.mdp, domain.reward_features @ -weights).policy
    return teaching_problem(domain, weights, 1.02 * expectation(domain, worst).preference)


def polytope_problem(corners, normals, offsets, weights):
    """Omega_r is the hull of the corners (n, d_r), and Omega_r^L its part with normals @ mu_r <= offsets.

    One state with a choice for each corner: mu_r = sum over choices of z(c) phi_r(c), with z >= 0 and sum z = 2.
    """
    corners, normals = np.asarray(corners, dtype=float), np.asarray(normals, dtype=float)
    mdp = MDP.from_arrays(np.ones((1, len(corners), 1)), [1.0], 0.5)
    # An allowance is not negative: mu_c = normals @ mu_r - offsets + 1 is allowed up to 1.
    above = corners @ normals.T - np.asarray(offsets) + 1.0
    names = (
        [f"{kind} {i}" for i in range(n)] for kind, n in zip(("reward", "limit"), normals.shape[::-1], strict=True)
    )
    return teaching_problem(Domain(mdp, corners / 2, above / 2, *names), weights, np.ones(len(normals)))


def published_problem(name, seed):
    world = object_world(size=10, seed=seed)
    return teaching_problem(world.domain(name), world.true_weights, ALLOWANCE)


def soft_learner(problem):
    """Footnote 1: hard preferences, and C_r = 20 times the squared mismatch instead of the projection."""
    return ApproximateHardLearner(problem.domain, violation_allowance=ALLOWANCE)


def seen_in_part(seed, allowance):
    """A soft learner with two preferences on a ragged domain, and mu_r of three of its answers."""
    rng = np.random.default_rng(seed)
    mdp = build_mdp(rng, rng.integers(2, 4, size=8), 0.8)
    domain = add_features(rng, mdp, n_reward=3, n_preference=2, reward_on_choices=False, preference_on_choices=True)
    delta = allowance * expectation(domain, uniform_policy(mdp)).preference
    learner = SoftLearner(domain, mismatch_penalty=1.2, violation_penalty=1.5, violation_allowance=delta)
    lessons = [AgnosticTeacher(domain, rng.normal(size=3)).open().lesson for _ in range(3)]
    return learner, reward_evidence(learner, lessons)


def reward_evidence(learner, lessons):
    """mu_r of the answers to some lessons."""
    domain = learner.domain
    seen = tuple(tuple(learner.respond(lesson).expectation.both) for lesson in lessons)
    shown = tuple(tuple(lesson.expectation) for lesson in lessons)
    exact = ((0.0,) * len(domain.names),) * len(lessons)
    return Evidence(domain, shown, seen, exact, domain.n_reward)


def values(record):
    """Every number and word in a record, by the names that lead to it."""
    parts = record if isinstance(record, dict) else {}
    if hasattr(record, "__dataclass_fields__") and not isinstance(record, MDP):
        parts = {name: getattr(record, name) for name in record.__dataclass_fields__}
    elif not isinstance(record, dict):
        return {"": record}
    return {f"{name}.{place}": value for name, part in parts.items() for place, value in values(part).items()}


def assert_same_transcript(one: Transcript, other: Transcript):
    """Equal in every number and word, and about the same MDP object."""
    assert one.ended == other.ended and len(one.rounds) == len(other.rounds)
    for first, second in zip(one.rounds, other.rounds, strict=True):
        left, right = values(first), values(second)
        assert left.keys() == right.keys()
        for place in left:
            if isinstance(left[place], MDP):
                assert left[place] is right[place]
            else:
                assert_array_equal(left[place], right[place], err_msg=place)


def degraded(domain, kind):
    """Preference features that are duplicated, constant, never met or nested."""
    features = domain.preference_features.copy()
    if kind == 1:
        features[:, -1] = features[:, 0]
    elif kind == 2:
        features[:, 0] = 0.7
    elif kind == 3:
        features = (features > 0.5).astype(float)
        features[:, 0] = 0.0
    elif kind == 4:
        features[:, -1] = np.minimum(features[:, 0], features[:, -1])
    return Domain(domain.mdp, domain.reward_features, features, domain.reward_names, domain.preference_names)


def random_rounds(seed, spread=0.0):
    """A random soft learner on a ragged domain, some of its preferences absent, and three rounds with it.

    spread: the features are rescaled by powers of ten up to this, all alike where the seed is odd.
    """
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed, max_states=20)
    if domain.n_preference == 0:
        return None
    domain = degraded(domain, seed % 5)
    n_factors = (1, 1) if seed % 2 else (domain.n_reward, domain.n_preference)
    reward, preference = (10 ** rng.uniform(-spread, spread, n) if spread else np.ones(n) for n in n_factors)
    names = domain.reward_names, domain.preference_names
    domain = Domain(domain.mdp, domain.reward_features * reward, domain.preference_features * preference, *names)
    penalty, violation = 10 ** rng.uniform(-1, 1, 2)
    if spread:
        penalty, violation = penalty / rng.choice(reward), violation / rng.choice(preference)
    uniform = expectation(domain, uniform_policy(domain.mdp))
    n = domain.n_preference
    absent = ABSENT * preference.max()
    delta = np.where(rng.random(n) < 0.3, absent, uniform.preference * rng.choice([0, 0.5, 0.95, 1.02], n))
    learner = SoftLearner(domain, mismatch_penalty=penalty, violation_penalty=violation, violation_allowance=delta)
    weights = [rng.normal(size=domain.n_reward) / reward for _ in range(2)]
    lessons = [AgnosticTeacher(domain, weight).open().lesson for weight in weights]
    lessons.append(Lesson.from_expectation(uniform.reward))
    return learner, delta, [Round(lesson, learner.respond(lesson)) for lesson in lessons]


def road(seed, goal, *, n=14, at_side=False, twisted=False):
    """A random network with one-way streets in which every junction has a way on; features: length, and a turn.

    The goal is a junction, or (at_side) a place at the side of one, which is passed or entered.
    """
    rng = np.random.default_rng(seed)
    ways = {(s, (s + 1) % n) for s in range(n)} | {
        tuple(map(int, rng.choice(n, 2, replace=False))) for _ in range(2 * n)
    }
    ways = sorted(ways)
    lengths = {way: rng.uniform(0.5, 2.0) for way in ways}
    turns = {way: float(rng.random() < 0.4) for way in ways}
    states, end = (n + 1, n) if at_side else (n, goal)
    moves = [(*way, lengths[way], turns[way]) for way in ways if at_side or way[0] != goal]
    moves += [(goal, n, 0.3, 0.0)] if at_side else []
    moves = sorted([*moves, (end, end, 0.0, 0.0)])
    state, after, length, turn = map(np.array, zip(*moves, strict=True))
    if twisted:
        length = length * 1.1
    rows = sparse.csr_array((np.ones(len(after)), after, np.arange(len(after) + 1)), (len(after), states))
    initial = rng.dirichlet(np.ones(states))
    mdp = MDP.from_choices(rows, np.searchsorted(state, np.arange(states + 1)), initial, 1.0)
    return Domain(mdp, length[:, None], turn[:, None], ("length",), ("turn",))


def shown_policy(seed):
    """A random domain, a generator, and a lesson that is a random policy."""
    rng = np.random.default_rng(seed)
    domain = random_domain_of(rng, seed)
    return domain, rng, Lesson.from_policy(domain, random_policy(rng, domain.mdp))

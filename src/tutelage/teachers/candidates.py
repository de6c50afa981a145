"""Teachers that choose among candidate lessons: one mechanism with five scores.

A candidate is a lesson of demonstrations from one start. Each round the teacher shows the candidate with the highest
score, the first of equals:

    random        none: one at random                                                                    (RandomTeacher)
    OMNI          -|w' - target|, w' the learner's weights after the candidate; or its reward then   (OmniscientTeacher)
    BBOX          |true_weights @ (mu_hat - mu_r(pi_L))|, both from the candidate's start              (BlackBoxTeacher)
    CUR           log pi_T(demonstrations) - log pi_L(demonstrations), per demonstration             (CurriculumTeacher)
    SCOT          one for the next candidate of a set cover                                            (SetCoverTeacher)

OMNI and BBOX are of Kamalaruban et al. 2019, CUR of Yengera et al. 2021, SCOT of Brown and Niekum 2019. pi_T is what
the teacher demonstrates: the optimal policy, ties split evenly. A teacher that is aware demonstrates the best policy
that keeps the learner's preferences instead; everything else is the same.

SCOT shows the demonstrations that determine the reward as far as any can. A policy is optimal for weights w exactly if
w @ n >= 0 for all half-spaces

    n(s, c) = psi(s, c*) - psi(s, c),        psi(c) = phi(c) + discount T(c) psi,  psi(s) = the mean over the policy,

c* a choice that it takes in s and c any other: the behavioural equivalence class. Half-spaces that follow from others
are redundant. A demonstration shows those of the choices along its way; the cover takes the candidate that shows most
new ones, again and again. The best policy that keeps preferences is optimal for the weights (w, -u) of reward and
preference features together, with u the prices of the limits; its half-spaces are those of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tutelage import arrays
from tutelage.arrays import ArrayLike, Flags, Matrix, Vector, check_length, check_numbers, floats, set_fields
from tutelage.bellman.equations import solve_hard
from tutelage.chains.expectations import occupancy, successor_features
from tutelage.constrained.problem import or_one
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, minimise_linear
from tutelage.data.sampling import sample_demonstrations
from tutelage.learners.cloning import choice_counts
from tutelage.model.mdp import Domain, absorbing_states, combined_features, discounted, per_choice
from tutelage.model.policy import check_policy, uniform_policy
from tutelage.outcomes import InvalidModel, NotConverged
from tutelage.roles import Advice, Lesson, Opening, Response, Round, check_lesson, check_match, respond_after
from tutelage.teachers.base import BaseTeacher, best_kept

# Normals of half-spaces whose unit vectors differ by less than this are one; a violation below it is rounding.
SAME_NORMAL = 1e-9


def candidate_lessons(
    domain: Domain,
    policy: ArrayLike,
    *,
    n_demonstrations: int = 1,
    max_starts: int = 50,
    anywhere: bool = False,
    rng: int = 0,
) -> tuple[Lesson, ...]:
    """One lesson of samples from each start, at most max_starts at random; anywhere: from any state not absorbing."""
    mdp = domain.mdp
    arrays.whole_number(max_starts, "max_starts", least=1)
    drawn = arrays.generator(rng)
    starts = np.flatnonzero(~absorbing_states(mdp) if anywhere else mdp.initial)
    if len(starts) > max_starts:
        starts = np.sort(drawn.choice(starts, size=max_starts, replace=False))
    lessons = []
    for start in starts:
        at = (np.arange(mdp.n_states) == start).astype(np.float64)
        shown = sample_demonstrations(domain.starting_in(at), policy, n_demonstrations, rng=drawn)
        lessons.append(Lesson.from_demonstrations(domain, shown, start=at))
    return tuple(lessons)


@dataclass(frozen=True, eq=False)
class CandidateTeacher(BaseTeacher):
    """Shows the candidate with the highest score. A subclass defines `scores(rounds)`, one for each candidate.

    learner: what is known of it, if anything. aware: whether demonstrations keep its preferences, if it has any.
    candidates: by default one lesson of n_demonstrations from each start, at most max_starts, or from anywhere.
    max_lessons: how many lessons it has. rng: the seed of everything random. initial_policy: (C,), what the learner
    does before the first lesson; by default uniform.
    """

    learner: Any = None
    aware: bool = field(default=False, kw_only=True)
    candidates: Sequence[Lesson] = field(default=(), kw_only=True)
    n_demonstrations: int = field(default=1, kw_only=True)
    max_starts: int = field(default=50, kw_only=True)
    anywhere: bool = field(default=False, kw_only=True)
    max_lessons: int = field(default=100, kw_only=True)
    rng: int = field(default=0, kw_only=True)
    initial_policy: ArrayLike | None = field(default=None, kw_only=True)
    shown_policy: Vector = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, "n_demonstrations", "max_starts", "max_lessons", least=1, is_whole=True)
        check_numbers(self, "rng", least=0, is_whole=True)
        mdp, before = self.domain.mdp, self.initial_policy
        before = uniform_policy(mdp) if before is None else check_policy(mdp, before)
        if self.learner is not None:
            check_match(self.domain, self.learner)
        if self.is_limited:
            policy = best_kept(self.learner, self.true_weights).policy
        else:
            policy = solve_hard(self.domain.mdp, self.domain.reward_features @ self.true_weights).policy
        size = {"n_demonstrations": self.n_demonstrations, "max_starts": self.max_starts}
        made = self.candidates or candidate_lessons(self.domain, policy, anywhere=self.anywhere, rng=self.rng, **size)
        known = tuple(check_lesson(self.domain, lesson) for lesson in made)
        set_fields(self, shown_policy=policy, candidates=known, initial_policy=before)

    @property
    def is_limited(self) -> bool:
        """Whether the demonstrations keep preferences."""
        preference = getattr(self.learner, "preference", None)
        return self.aware and preference is not None and bool(preference.on(self.domain).names)

    def open(self) -> Opening:
        """The first candidate."""
        return Opening(*self._chosen(()))

    def adapt(self, rounds: Sequence[Round]) -> Advice:
        """The next candidate, until there were `max_lessons`."""
        if len(rounds) >= self.max_lessons:
            return Advice(None, f"all {self.max_lessons} lessons were taught")
        return Advice(*self._chosen(rounds))

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """(n,), of each candidate; here independent random numbers in each round."""
        return np.random.default_rng((self.rng, len(rounds))).random(len(self.candidates))

    def seen(self, rounds: Sequence[Round]) -> Vector:
        """(C,), what the learner does now."""
        return rounds[-1].response.policy if rounds else np.asarray(self.initial_policy)

    def _one_for(self, turn: int) -> Vector:
        return np.asarray(np.arange(len(self.candidates)) == turn, dtype=np.float64)

    def _chosen(self, rounds: Sequence[Round]) -> tuple[Lesson, str]:
        scores = self.scores(rounds)
        best = int(np.argmax(scores))
        return self.candidates[best], f"candidate {best} of {len(scores)}, with score {scores[best]:.4g}"


class RandomTeacher(CandidateTeacher):
    """Shows demonstrations from a random start."""


@dataclass(frozen=True, eq=False)
class OmniscientTeacher(CandidateTeacher):
    """OMNI: knows the learner, any, and looks one lesson ahead.

    target: (n,), where its weights are led to; without one, to the most reward after the next lesson.
    """

    target: ArrayLike | None = field(default=None, kw_only=True)

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """Minus the distance to the target after each candidate, or the reward."""
        if self.learner is None:
            raise InvalidModel("this teacher must know the learner; give learner=")
        last = rounds[-1].response if rounds else None
        return np.array([self._score(respond_after(self.learner, lesson, last)) for lesson in self.candidates])

    def _score(self, response: Response) -> float:
        if self.target is None:
            return float(self.true_weights @ response.expectation.reward)
        target = floats(self.target, "target", ndim=1)
        weights = response.learned_weights
        if weights is None:
            raise InvalidModel("this learner's responses have no weights to lead to a target; give no target")
        check_length(target, len(weights), "target", "weights of the learner")
        return -float(np.linalg.norm(weights - target))


class BlackBoxTeacher(CandidateTeacher):
    """BBOX: shows the start from which the learner's reward differs most from that of the demonstrations."""

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """The difference of the rewards, without its sign."""
        ahead = successor_features(self.domain, self.seen(rounds))[:, : self.domain.n_reward] @ self.true_weights
        rewards = np.array([lesson.expectation @ self.true_weights for lesson in self.candidates])
        starts = np.array([lesson.seen_in(self.domain).mdp.initial @ ahead for lesson in self.candidates])
        return np.asarray(np.abs(rewards - starts))


@dataclass(frozen=True, eq=False)
class CurriculumTeacher(CandidateTeacher):
    """CUR: shows what is likely for the teacher and unlikely for the learner.

    knows_learner: whether it sees the learner's policy in each round; if not, that before the first lesson stands for
    it, and the candidates are shown in the order of their scores, again and again.
    """

    knows_learner: bool = field(default=True, kw_only=True)

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """The log-likelihood ratio per demonstration; or one for the candidate whose turn it is."""
        tiny = np.finfo(np.float64).tiny
        learner = self.seen(rounds if self.knows_learner else ())
        ratio = np.log(np.maximum(self.shown_policy, tiny)) - np.log(np.maximum(learner, tiny))
        likely = [choice_counts(self.domain, lesson) @ ratio for lesson in self.candidates]
        scores = np.array(likely) / [lesson.n_demonstrations or 1 for lesson in self.candidates]
        if self.knows_learner:
            return scores
        return self._one_for(int(np.argsort(-scores, kind="stable")[len(rounds) % len(scores)]))


def half_spaces(domain: Domain, policy: Vector, n_features: int, taken: Flags) -> tuple[Matrix, Flags]:
    """The normals (k, d) without redundant ones, and whether taking a choice shows each of them, (C, k).

    taken: (C,). Of n_features features, those of the reward first; with each in its own unit, normals have length one.
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
    """(k,), which n_i @ w >= 0 do not follow from the others: n_i @ w may be negative where the others hold."""
    kept = np.ones(len(normals), dtype=np.bool_)
    for i, normal in enumerate(normals):
        kept[i] = False
        rows = np.vstack([-normals[kept], -normal])
        bound = np.append(np.zeros(len(rows) - 1), 1.0)
        free = LinearConstraints(np.full(len(normal), -np.inf), within=rows, bound=bound)
        # Where n_i follows, the least n_i @ w within the others and n_i @ w >= -1 is zero; otherwise -1.
        try:
            kept[i] = minimise_linear(normal, free).value < -0.5
        except (InfeasibleProgram, NotConverged):
            # Rounding among nearly parallel half-spaces: one too many does no harm.
            kept[i] = True
    return kept


def greedy_cover(covered: Flags) -> list[int]:
    """The rows of (n, k) to take, in order, until no row covers a column that is not covered yet."""
    order = []
    left = covered.any(axis=0)
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
        n_features = self.domain.n_reward
        taken = self.shown_policy > 0
        if self.is_limited:
            n_features += self.domain.n_preference
            # Where it never is, the best policy within limits may do anything.
            visits = occupancy(self.domain.mdp, self.shown_policy)
            taken = visits > SAME_NORMAL * visits.sum()
        normals, shows = half_spaces(self.domain, self.shown_policy, n_features, taken)
        covered = [shows[choice_counts(self.domain, lesson) > 0].any(axis=0) for lesson in self.candidates]
        set_fields(self, normals=normals, order=tuple(greedy_cover(np.array(covered))))

    def scores(self, rounds: Sequence[Round]) -> Vector:
        """One for the next candidate of the cover; random after its end."""
        if len(rounds) < len(self.order):
            return self._one_for(self.order[len(rounds)])
        return super().scores(rounds)

"""Every learner that would have given the answers seen: boxes for C_r, C_c and each delta_j.

One answer (`recovery`) confines its unknowns x to a polytope: |q @ (x - point)| <= error along each direction that it
determines, |a_k| <= C_r and 0 <= b_j <= C_c. The optimality conditions turn it into statements about theta = (C_r, C_c,
delta), and statements about theta into further rows of the polytope:

    b_j > 0           =>   delta_j <= mu_c[j]              mu_c[j] > delta_j   =>   b_j = C_c
    b_j < C_c         =>   delta_j >= mu_c[j]              mu_c[j] < delta_j   =>   b_j = 0

`narrowed` repeats both until nothing changes. If the learner is that of Sec. 3.2, the box contains the truth: every
step only removes theta that contradict an answer. C_c is known once one preference was paid for at two different
mu_c[j]: at the larger of them mu_c[j] > delta_j, so that b_j = C_c there. No mu_c[j] exceeds its largest value over all
policies, so that a delta_j at that value or above never matters: it stands for a preference that the learner does not
have.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from tutelage.arrays import Matrix, Vector, freeze
from tutelage.convex.programs import InfeasibleProgram, LinearConstraints, minimise_linear
from tutelage.inference.recovery import Answer, Scales
from tutelage.outcomes import NotConverged, TutelageError

# Limit of a linear program, in units of one over a feature's range and of the largest weight found: an end of an
# interval that reaches it is infinite.
FAR = 1e4
# Relative accuracy of the linear programs.
PROGRAM_ACCURACY = 1e-7
MAX_PASSES = 6


class Contradiction(TutelageError):
    """No soft learner gives these answers; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class VersionSpace:
    """The box of theta. penalty: (2,), C_r. violation: (2,), C_c. low, high: (d_c,), delta; high is infinite where the
    preference may be absent.
    """

    penalty: Vector
    violation: Vector
    low: Vector
    high: Vector

    @classmethod
    def everything(cls, n_preference: int) -> "VersionSpace":
        whole = np.array([0.0, np.inf])
        return cls(whole, whole, np.zeros(n_preference), np.full(n_preference, np.inf))

    def is_close(self, other: "VersionSpace") -> bool:
        mine, theirs = (np.concatenate([s.penalty, s.violation, s.low, s.high]) for s in (self, other))
        return bool(np.allclose(mine, theirs, rtol=1e-9, atol=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """An answer within a version space. low, high: (d_c,), the possible b. least: (d_c,), the b of least sum."""

    answer: Answer
    low: Vector
    high: Vector
    least: Vector


def narrowed(
    answers: Sequence[Answer], scales: Scales, within: VersionSpace | None = None
) -> tuple[VersionSpace, list[Explained]]:
    """The version space of the answers, and each answer within it. Raises `Contradiction` where it is empty.

    within: a space that is known to hold.
    """
    n = len(answers[0].seen) - len(answers[0].shown)
    space, explained = within or VersionSpace.everything(n), list[Explained]()
    for _ in range(MAX_PASSES):
        before, explained = space, []
        for number, answer in enumerate(answers, start=1):
            try:
                space, one = _narrowed_by(space, answer, scales)
            except InfeasibleProgram:
                raise Contradiction(
                    f"the answer of round {number} contradicts the optimality conditions of a soft learner, "
                    "given the other rounds"
                ) from None
            explained.append(one)
        if space.is_close(before):
            break
    return space, explained


def _narrowed_by(space: VersionSpace, answer: Answer, scales: Scales) -> tuple[VersionSpace, Explained]:
    """The space within what one answer allows."""
    program, done = _Polytope.of(space, answer, scales), answer.seen[len(answer.shown) :]
    slack = scales.slack[len(answer.shown) :] + answer.blur
    penalty, violation = program.range_of(program.penalty_row), program.range_of(program.violation_row)
    n = len(answer.point) - len(done)
    ranges = np.array(
        [
            program.range_of(row) if known is None else known
            for row, known in zip(program.preference_rows, answer.known_ranges(PROGRAM_ACCURACY)[n:], strict=True)
        ]
    ).reshape(-1, 2)
    # At the least C_c that the answers allow, where the space is bounded by it.
    violation = np.array([max(violation[0], space.violation[0]), min(violation[1], space.violation[1])])
    fuzz = PROGRAM_ACCURACY / scales.unit[len(answer.shown) :] + PROGRAM_ACCURACY * ranges[:, 0]
    is_paid = ranges[:, 0] > 10 * fuzz
    is_below = ranges[:, 1] < violation[0] - 10 * fuzz
    high = np.where(is_paid, np.minimum(space.high, done + slack), space.high)
    low = np.where(is_below, np.maximum(space.low, done - slack), space.low)
    if (low > high).any() or violation[0] > violation[1] * (1 + PROGRAM_ACCURACY):
        raise InfeasibleProgram("no delta or C_c is left")
    kept = np.array([max(penalty[0], space.penalty[0]), min(penalty[1], space.penalty[1])])
    smaller = replace(space, penalty=freeze(kept), violation=freeze(violation), low=freeze(low), high=freeze(high))
    return smaller, Explained(answer, ranges[:, 0], ranges[:, 1], program.least_sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Polytope:
    """The unknowns (x, C_r, C_c) of one answer, in units: rows @ unknowns <= bound. scale: of each unknown. point: the
    x found. far: the limit of the unknowns.
    """

    rows: Matrix
    bound: Vector
    lower: Vector
    scale: Vector
    point: Vector
    n_preference: int
    far: float

    @classmethod
    def of(cls, space: VersionSpace, answer: Answer, scales: Scales) -> "_Polytope":
        n, d_c = len(answer.point), len(answer.seen) - len(answer.shown)
        # C_r and C_c in the smallest unit of the features that they limit: in any other, theirs is lost in rounding.
        reward, preference = np.split(scales.unit, [len(answer.shown)])
        scale = np.concatenate([answer.unit, [reward.min(), preference.min(initial=np.inf) if d_c else 1.0]])
        far = FAR * (1 + float(np.abs(answer.point).max()))
        first, n_free = int(answer.missed.any()), n - d_c
        eye = np.eye(n + 2) / scale
        rows, bound = [], []
        centre = answer.directions @ answer.point
        wide = np.pad(answer.directions, ((0, 0), (0, 2)))
        margin = answer.error + PROGRAM_ACCURACY / 10
        rows += [*wide, *-wide]
        bound += [*(centre + margin), *(margin - centre)]
        # C_r is both the first unknown, where a feature is missed, and a column of its own.
        for k in range(n_free):
            rows += [eye[k] - eye[n], -eye[k] - eye[n] if k >= first else eye[n] - eye[k]]
            bound += [PROGRAM_ACCURACY / scale[k]] * 2
        done, slack = answer.seen[len(answer.shown) :], scales.slack[len(answer.shown) :] + answer.blur
        for j in range(d_c):
            row = eye[n_free + j]
            rows += [row - eye[n + 1], -row]
            bound += [PROGRAM_ACCURACY / scale[n_free + j], -answer.floor[j] * (1 - PROGRAM_ACCURACY)]
            if done[j] > space.high[j] + slack[j]:
                rows.append(eye[n + 1] - row)
                bound.append(PROGRAM_ACCURACY / scale[n_free + j])
            if done[j] < space.low[j] - slack[j]:
                rows.append(row)
                bound.append(PROGRAM_ACCURACY / scale[n_free + j])
        for column, (least, most) in ((n, space.penalty), (n + 1, space.violation)):
            rows.append(-eye[column])
            bound.append(-least + PROGRAM_ACCURACY * (least + 1 / scale[column]))
            if np.isfinite(most):
                rows.append(eye[column])
                bound.append(most + PROGRAM_ACCURACY * (most + 1 / scale[column]))
        limits = np.eye(n + 2)
        rows += [*limits, *-limits[first:n_free]]
        bound += [*np.repeat([far, 100 * far], [n, 2]), *np.full(n_free - first, far)]
        lower = np.where(np.isin(np.arange(n + 2), np.arange(first, n_free)), -np.inf, 0.0)
        sized = np.array(rows)
        size = np.maximum(np.abs(sized).max(axis=1), 1e-300)
        return cls(sized / size[:, None], np.array(bound) / size, lower, scale, answer.point, d_c, far)

    @property
    def penalty_row(self) -> Vector:
        return np.asarray(np.eye(len(self.scale))[-2])

    @property
    def violation_row(self) -> Vector:
        return np.asarray(np.eye(len(self.scale))[-1])

    @property
    def preference_rows(self) -> Matrix:
        n = len(self.scale) - 2
        return np.asarray(np.eye(n + 2)[n - self.n_preference : n])

    def _least(self, slope: Vector) -> Vector:
        """The unknowns of least slope, by a program for their distance from the point found.

        HiGHS drops coefficients below 1e-9. Times the distance, they are less than the error of any row.
        """
        near = np.concatenate([self.point, np.zeros(2)])
        constraints = LinearConstraints(self.lower - near, within=self.rows, bound=self.bound - self.rows @ near)
        return near + minimise_linear(slope, constraints).answer.x

    def range_of(self, row: Vector) -> Vector:
        """(2,), the least and the largest value of one unknown; infinite where the limit is reached."""
        unit, low, high = float(row @ self.scale), 0.0, self.far
        # A program that the solver gives up on proves nothing: its end stays open.
        with suppress(NotConverged):
            low = float(row @ self._least(row))
        with suppress(NotConverged):
            high = float(row @ self._least(-row))
        return np.array(
            [
                max(low - PROGRAM_ACCURACY, 0.0) / unit,
                np.inf if high >= 0.9 * self.far else (high + PROGRAM_ACCURACY) / unit,
            ]
        )

    def least_sum(self) -> Vector:
        """(d_c,), the b of least sum: what the answer does not need counts as absent."""
        rows = self.preference_rows
        try:
            found = self._least(rows.sum(axis=0) + 1e-3 * self.violation_row)
        except NotConverged:
            found = np.concatenate([self.point, np.zeros(2)])
        return np.asarray(rows @ found) / (rows @ self.scale)

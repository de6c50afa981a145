"""Every learner that would have given the answers seen: boxes for C_r, C_c and each delta_j (docs/inference.md).

One answer (`recovery`) confines its unknowns x to a polytope: |q @ (x - point)| <= error along each direction that it
determines, |a_k| <= C_r and 0 <= b_j <= C_c. The optimality conditions turn it into statements about theta = (C_r, C_c,
delta), and statements about theta into further rows of the polytope:

    b_j > 0           =>   delta_j <= mu_c[j]              mu_c[j] > delta_j   =>   b_j = C_c
    b_j < C_c         =>   delta_j >= mu_c[j]              mu_c[j] < delta_j   =>   b_j = 0

`narrowed` repeats both until nothing changes. Every step only removes theta that contradict an answer.
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
    slack, n = scales.slack[len(answer.shown) :] + answer.blur, len(answer.point)
    penalty, violation = program.range_of(n), program.range_of(n + 1)
    known = answer.known_ranges(PROGRAM_ACCURACY)
    each = [program.range_of(k) if known[k] is None else known[k] for k in range(n - len(done), n)]
    ranges = np.array(each).reshape(-1, 2)
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
        first, free = int(answer.missed.any()), slice(0, n - d_c)
        eye, small, limits = np.eye(n + 2) / scale, PROGRAM_ACCURACY / scale, np.eye(n + 2)
        paid, little = eye[n - d_c : n], small[n - d_c : n]
        centre, wide = answer.directions @ answer.point, np.pad(answer.directions, ((0, 0), (0, 2)))
        margin = answer.error + PROGRAM_ACCURACY / 10
        done, slack = answer.seen[len(answer.shown) :], scales.slack[len(answer.shown) :] + answer.blur
        is_full, is_absent = done > space.high + slack, done < space.low - slack
        parts: list[tuple[Matrix, Vector]] = [
            (wide, centre + margin),
            (-wide, margin - centre),
            # C_r is both the first unknown, where a feature is missed, and a column of its own.
            (eye[free] - eye[n], small[free]),
            (eye[n] - eye[:first], small[:first]),
            (-eye[free][first:] - eye[n], small[free][first:]),
            (paid - eye[n + 1], little),
            (-paid, -answer.floor * (1 - PROGRAM_ACCURACY)),
            (eye[n + 1] - paid[is_full], little[is_full]),
            (paid[is_absent], little[is_absent]),
            (limits, np.repeat([far, 100 * far], [n, 2])),
            (-limits[free][first:], np.full(n - d_c - first, far)),
        ]
        for side, ends in (
            (-1.0, (space.penalty[0], space.violation[0])),
            (1.0, (space.penalty[1], space.violation[1])),
        ):
            end, unit = np.array(ends), scale[n:]
            kept = np.isfinite(end)
            parts.append((side * eye[n:][kept], (side * end + PROGRAM_ACCURACY * (end + 1 / unit))[kept]))
        rows, bound = (np.concatenate(part) for part in zip(*parts, strict=True))
        lower = np.where(np.isin(np.arange(n + 2), np.arange(first, n - d_c)), -np.inf, 0.0)
        size = np.maximum(np.abs(rows).max(axis=1), 1e-300)
        return cls(rows / size[:, None], bound / size, lower, scale, answer.point, d_c, far)

    def _least(self, slope: Vector) -> Vector:
        """The unknowns of least slope, by a program for their distance from the point found.

        HiGHS drops coefficients below 1e-9. Times the distance, they are less than the error of any row.
        """
        near = np.concatenate([self.point, np.zeros(2)])
        constraints = LinearConstraints(self.lower - near, within=self.rows, bound=self.bound - self.rows @ near)
        return near + minimise_linear(slope, constraints).answer.x

    def range_of(self, k: int) -> Vector:
        """(2,), the least and the largest value of one unknown; infinite where the limit is reached."""
        row, low, high = np.eye(len(self.scale))[k], 0.0, self.far
        # A program that the solver gives up on proves nothing: its end stays open.
        with suppress(NotConverged):
            low = float(self._least(row)[k])
        with suppress(NotConverged):
            high = float(self._least(-row)[k])
        least, most = max(low - PROGRAM_ACCURACY, 0.0), np.inf if high >= 0.9 * self.far else high + PROGRAM_ACCURACY
        return np.asarray(np.array([least, most]) / self.scale[k])

    def least_sum(self) -> Vector:
        """(d_c,), the b of least sum: what the answer does not need counts as absent."""
        n, slope = len(self.point), np.zeros(len(self.scale))
        paid = slice(n - self.n_preference, n)
        slope[paid], slope[-1] = 1.0, 1e-3
        try:
            found = self._least(slope)
        except NotConverged:
            found = self.point
        return np.asarray(found[paid] / self.scale[paid])

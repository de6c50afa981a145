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
from dataclasses import dataclass

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


def everything(n_preference: int) -> Matrix:
    """(2, 2 + d_c), the version space before any answer: both ends of theta.

    The high end of delta_j is infinite where the preference may be absent.
    """
    return np.repeat([[0.0], [np.inf]], 2 + n_preference, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """An answer within a version space. low, high: (d_c,), the possible b. least: (d_c,), the b of least sum."""

    answer: Answer
    low: Vector
    high: Vector
    least: Vector


def narrowed(answers: Sequence[Answer], scales: Scales, within: Matrix) -> tuple[Matrix, list[Explained]]:
    """The version space of the answers within another, and each answer in it; `Contradiction` where it is empty."""
    space, explained = within, list[Explained]()
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
        if np.allclose(space, before, rtol=1e-9, atol=0.0):
            break
    return space, explained


def _narrowed_by(space: Matrix, answer: Answer, scales: Scales) -> tuple[Matrix, Explained]:
    """The space within what one answer allows."""
    program, done = _Polytope.of(space, answer, scales), answer.seen[len(answer.shown) :]
    slack, n = scales.slack[len(answer.shown) :] + answer.blur, len(answer.point)
    least, most = np.array([program.range_of(n), program.range_of(n + 1)]).T
    least, most = np.maximum(least, space[0, :2]), np.minimum(most, space[1, :2])
    known = answer.known_ranges(PROGRAM_ACCURACY)
    each = [program.range_of(k) if known[k] is None else known[k] for k in range(n - len(done), n)]
    ranges = np.array(each).reshape(-1, 2)
    fuzz = PROGRAM_ACCURACY / scales.unit[len(answer.shown) :] + PROGRAM_ACCURACY * ranges[:, 0]
    is_paid = ranges[:, 0] > 10 * fuzz
    # At the least C_c that the answers allow, where the space is bounded by it.
    is_below = ranges[:, 1] < least[1] - 10 * fuzz
    low = np.where(is_below, np.maximum(space[0, 2:], done - slack), space[0, 2:])
    high = np.where(is_paid, np.minimum(space[1, 2:], done + slack), space[1, 2:])
    if (low > high).any() or least[1] > most[1] * (1 + PROGRAM_ACCURACY):
        raise InfeasibleProgram("no delta or C_c is left")
    smaller = freeze(np.array([np.append(least, low), np.append(most, high)]))
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
    def of(cls, space: Matrix, answer: Answer, scales: Scales) -> "_Polytope":
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
        is_full, is_absent = done > space[1, 2:] + slack, done < space[0, 2:] - slack
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
        for side, end in zip((-1.0, 1.0), space[:, :2], strict=True):
            kept = np.isfinite(end)
            parts.append((side * eye[n:][kept], (side * end + PROGRAM_ACCURACY * (end + 1 / scale[n:]))[kept]))
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

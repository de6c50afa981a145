"""The minimum of a small quadratic plus simple terms, some of them on balls, by an active set and Newton's method.

    minimise   gradient @ (z - x) + 1/2 (z - x) @ hessian @ (z - x) + h(z)

Once it is known which entries rest at zero or at a bound, and which balls hold z on their surface, the optimality
conditions are equations in the other entries and one multiplier m for each surface:

    hessian (z - x) + gradient + grad h(z) + sum of m_k normal_k(z) = 0
    sum of |z_k| = radius_k (q = 1), or 2-norm of the sums = radius_k (q = 2)

where normal_k has the signs of z (q = 1), or the sums of z by group (q = 2).

They are linear but for the products m z of q = 2, and a few Newton steps solve them to rounding. The active set is that
of x, or one close to it, where that satisfies the conditions, as it does in the last steps of an outer iteration.
Otherwise an interior point (Clarabel) finds it: an entry is active where its slack is smaller than its multiplier.
There is no search for multipliers one within another, so the time is that of a few linear systems for any number of
balls.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tutelage import watch
from tutelage.arrays import Flags, Indices, Matrix, Vector
from tutelage.convex.blocks import Block, contained, residual, slices
from tutelage.convex.programs import minimise_conic

MAX_STEPS = 12
# How many active sets are tried after one guess.
MAX_REPAIRS = 4
# An interior point takes as long as so many steps of another iteration on a small model.
POINT_STEPS = 5
# A step of this size, relative to the point, is rounding.
ROUNDED = 1e-14
# The largest residual, relative to the terms that it is made of, at which an active set counts as the right one.
EXACT = 1e-11


def surface_minimum(gradient: Vector, hessian: Matrix, blocks: Sequence[Block], x: Vector) -> Vector:
    """argmin over z of the model plus h, for a positive definite hessian."""
    model = _Model(gradient, hessian, blocks, x)
    near, is_exact = model.repaired(model.active_at(x))
    if is_exact:
        return near[-1][1]
    rough, active = model.interior_point()
    found = [*near, *([] if rough is None else [(model.error(rough), rough)]), *model.repaired(active)[0]]
    return min(found, key=lambda pair: pair[0])[1] if found else x


@dataclass(frozen=True, slots=True, eq=False)
class _Active:
    """z: (n,), the values of the fixed entries. side: (n,), the sign of the others. surfaces: the balls that bind."""

    z: Vector
    is_fixed: Flags
    side: Vector
    surfaces: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    gradient: Vector
    hessian: Matrix
    blocks: Sequence[Block]
    x: Vector

    @property
    def parts(self) -> list[tuple[Block, slice]]:
        return list(zip(self.blocks, slices(self.blocks), strict=True))

    def slope_at(self, z: Vector) -> Vector:
        """The gradient of the quadratic at z."""
        return self.gradient + self.hessian @ (z - self.x)

    def error(self, z: Vector) -> float:
        return residual(self.slope_at(z), self.blocks, z)

    def active_at(self, x: Vector) -> _Active:
        """The entries at zero or at a bound, and the surfaces on which x lies."""
        is_fixed, surfaces = np.zeros(len(x), dtype=np.bool_), []
        for k, (block, part) in enumerate(self.parts):
            here = x[part]
            on_surface = block.is_on_surface(here)
            if on_surface:
                surfaces.append(k)
            is_fixed[part] = (here == 0) & (block.has_kink(on_surface) | ~block.signed)
            if not block.is_ball:
                is_fixed[part] |= np.abs(here) >= block.radius
        return _Active(x, is_fixed, np.sign(x), tuple(surfaces))

    def repaired(self, active: _Active) -> tuple[list[tuple[float, Vector]], bool]:
        """The solutions on an active set and on those that its errors suggest, with their residuals.

        They end with the first whose residual is rounding; the second result says whether there is one.
        """
        found: list[tuple[float, Vector]] = []
        for _ in range(MAX_REPAIRS):
            z = self.polished(active)
            if z is None:
                break
            found.append((self.error(z), z))
            terms_of_slope = np.abs(self.gradient) + np.abs(self.hessian) @ np.abs(z - self.x)
            if found[-1][0] <= EXACT * float(terms_of_slope.max()):
                return found, True
            if len(found) > 1 and found[-1][0] > 0.5 * found[-2][0]:
                break
            active = self._released(z)
        return found, False

    def _released(self, z: Vector) -> _Active:
        """The active set at z, without the entries whose conditions are violated there."""
        active, slope = self.active_at(z), self.slope_at(z)
        each = [(block, slope[part], z[part]) for block, part in self.parts]
        wrong = np.concatenate([block.violations(g, x, block.surface_multiplier(g, x)) for block, g, x in each])
        freed = active.is_fixed & (np.abs(wrong) > 0.1 * np.abs(wrong).max())
        return replace(active, is_fixed=active.is_fixed & ~freed, side=np.where(freed, -np.sign(wrong), active.side))

    def polished(self, active: _Active) -> Vector | None:
        """The solution of the optimality conditions on an active set, moved into the set; None where there is none."""
        free = np.flatnonzero(~active.is_fixed)
        balls = [self.parts[k] for k in active.surfaces]
        z = active.z.copy()
        m = np.array([block.multiplier(self.slope_at(z)[part], z[part]) for block, part in balls])
        curved = self.hessian + np.diag(np.concatenate([np.full(len(b.slope), b.curvature) for b in self.blocks]))
        kinks = np.concatenate(
            [block.slope * np.where(block.signed, active.side[part], 1.0) for block, part in self.parts]
        )
        offset = self.gradient - self.hessian @ self.x + kinks
        is_curved, last = any(block.norm == 2 or block.vectors for block, _ in balls), math.inf
        for _ in range(MAX_STEPS):
            watch.spend()
            system, normals = curved.copy(), np.zeros((len(balls), len(z)))
            short = np.zeros(len(balls))
            for k, (block, part) in enumerate(balls):
                normals[k, part] = block.normal(z[part], active.side[part])
                system[part, part] += max(float(m[k]), 0.0) * block.bend(z[part])
                short[k] = block.short(z[part], active.side[part])
            wrong = (curved @ z + offset + normals.T @ m)[free]
            step = _solved(system[np.ix_(free, free)], normals[:, free], -wrong, short)
            moved = math.inf if step is None else float(np.abs(step).max(initial=0.0))
            if step is None or not moved < last:
                # The last step was already within rounding, or this is not the active set.
                break
            z[free] += step[: len(free)]
            m, last = m + step[len(free) :], moved if is_curved else 0.0
            if moved <= ROUNDED * float(np.abs(z).max()):
                break
        if not np.isfinite(z).all() or (m < 0).any():
            return None
        is_lost = (active.side != 0) & (np.sign(z) != active.side) & ~active.is_fixed & (kinks != 0)
        return contained(self.blocks, np.where(is_lost, 0.0, z))

    def interior_point(self) -> tuple[Vector | None, _Active]:
        """A point close to the minimum, and the active set that its slacks and multipliers show."""
        watch.spend(POINT_STEPS)
        program = _ConeProgram.of(self)
        found = program.solve()
        z = contained(self.blocks, found.z)
        return (z if found.is_solved else None), found.active


def _solved(hessian: Matrix, normals: Matrix, wrong: Vector, short: Vector) -> Vector | None:
    """The Newton step of the optimality conditions on the free entries and the multipliers.

    Scaled to unit curvature, so that entries of any size count alike.
    """
    unit = 1 / np.sqrt(np.diag(hessian))
    rows = normals * unit
    length = np.linalg.norm(rows, axis=1)
    if not length.all():
        return None
    rows = rows / length[:, None]
    k = len(rows)
    system = np.block([[unit[:, None] * hessian * unit, rows.T], [rows, np.zeros((k, k))]])
    right = np.concatenate([unit * wrong, short / length])
    try:
        answer = np.linalg.solve(system, right)
        answer = answer + np.linalg.solve(system, right - system @ answer)
    except np.linalg.LinAlgError:
        return None
    return np.concatenate([unit * answer[: len(unit)], answer[len(unit) :] / length])


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    z: Vector
    active: _Active
    is_solved: bool


@dataclass(frozen=True, slots=True, eq=False)
class _ConeProgram:
    """The model in variables v = z / unit of order one, with t >= |v| where a signed entry has a kink.

    unit: (n,), the step that the entry alone would take, or the radius of its block where that is smaller. vectors: the
    parts of z whose 2-norms count in a sum. Each has a further variable, its 2-norm divided by its largest unit.
    """

    model: _Model
    unit: Vector
    kinked: Indices
    vectors: list[slice]

    @classmethod
    def of(cls, model: _Model) -> "_ConeProgram":
        curvature = np.concatenate([np.full(len(b.slope), b.curvature) for b in model.blocks])
        radius = np.concatenate([np.full(len(block.slope), block.radius) for block in model.blocks])
        slope = np.concatenate([block.slope for block in model.blocks])
        alone = 1 / np.sqrt(np.diag(model.hessian) + curvature)
        pull = alone * (np.abs(model.gradient - model.hessian @ model.x) + np.abs(slope))
        unit = np.minimum(alone * max(float(pull.max()), np.finfo(np.float64).tiny), radius)
        kinked = np.concatenate([b.signed & b.has_kink(b.is_ball) for b in model.blocks])
        balls = [(block, part.start) for block, part in model.parts if block.norm == 1]
        vectors = [slice(at + one.start, at + one.stop) for block, at in balls for one in block.vectors]
        return cls(model, unit, np.flatnonzero(kinked), vectors)

    @property
    def n_more(self) -> int:
        """The number of variables beside v."""
        return len(self.kinked) + len(self.vectors)

    def solve(self) -> _Found:
        model, unit, n, k = self.model, self.unit, len(self.unit), self.n_more
        curvature = np.concatenate([np.full(len(b.slope), b.curvature) for b in model.blocks])
        quadratic = np.zeros((n + k, n + k))
        quadratic[:n, :n] = unit[:, None] * (model.hessian + np.diag(curvature)) * unit
        weight = np.concatenate([block.slope for block in model.blocks])
        signed = np.concatenate([block.signed for block in model.blocks])
        start = model.gradient - model.hessian @ model.x + np.where(signed, 0.0, weight)
        linear = np.concatenate([unit * start, (unit * weight)[self.kinked], np.zeros(len(self.vectors))])
        largest = max(float(np.abs(linear).max()), float(np.abs(quadratic).max()))
        rows, right, where = self._linear_rows()
        balls = [self._ball_rows(block, part) for block, part in model.parts if block.is_ball and block.norm == 2]
        n_linear, cones = len(right), [*balls, *(self._vector_rows(j) for j in range(len(self.vectors)))]
        rows = np.vstack([rows, *(cone[0] for cone in cones)])
        right = np.concatenate([right, *(cone[1] for cone in cones)])
        found = minimise_conic(
            quadratic / largest, linear / largest, rows, right, n_linear, [len(cone[1]) for cone in cones]
        )
        z = unit * found.x[:n]
        return _Found(z, self._active(z, found.slacks, found.multipliers, where, n_linear, balls), found.is_solved)

    def _linear_rows(self) -> tuple[Matrix, Vector, list[tuple[str, int]]]:
        """rows @ (v, t) <= right, and for each row its kind and its entry or block."""
        n, k, model = len(self.unit), self.n_more, self.model
        rows, right, where = [], [], []
        place = {int(i): n + j for j, i in enumerate(self.kinked)}

        def add(entries: dict[int, float], limit: float, kind: str, index: int) -> None:
            row = np.zeros(n + k)
            for at, value in entries.items():
                row[at] = value
            length = float(np.abs(row).max())
            rows.append(row / length)
            right.append(limit / length)
            where.append((kind, index))

        for number, (block, part) in enumerate(model.parts):
            radius = np.full(len(block.slope), block.radius)
            for i in range(part.start, part.stop):
                limit = float(radius[i - part.start]) / self.unit[i]
                if not block.signed[i - part.start]:
                    add({i: -1.0}, 0.0, "zero", i)
                if i in place:
                    add({i: 1.0, place[i]: -1.0}, 0.0, "above", i)
                    add({i: -1.0, place[i]: -1.0}, 0.0, "below", i)
                if not block.is_ball and math.isfinite(limit):
                    add({i: 1.0}, limit, "upper", i)
                    if block.is_signed:
                        add({i: -1.0}, limit, "lower", i)
            if block.is_ball and block.norm == 1:
                plain = part.start + np.flatnonzero(~block.in_vectors)
                entries = {place.get(int(i), int(i)): float(self.unit[i]) for i in plain}
                add({**entries, **self._lengths(part)}, float(block.radius), "ball", number)
        return np.array(rows).reshape(-1, n + k), np.array(right), where

    def _lengths(self, part: slice) -> dict[int, float]:
        """The columns of the 2-norms of the vectors within a block, with their units."""
        first = len(self.unit) + len(self.kinked)
        inside = [(j, one) for j, one in enumerate(self.vectors) if part.start <= one.start < part.stop]
        return {first + j: float(self.unit[one].max()) for j, one in inside}

    def _vector_rows(self, j: int) -> tuple[Matrix, Vector]:
        """The 2-norm of a vector, as rows of a second-order cone."""
        part = self.vectors[j]
        width, n, unit = part.stop - part.start, len(self.unit), self.unit[part]
        rows = np.zeros((1 + width, n + self.n_more))
        rows[0, n + len(self.kinked) + j] = -1.0
        rows[1:, part] = -np.diag(unit / unit.max())
        return rows, np.zeros(1 + width)

    def _ball_rows(self, block: Block, part: slice) -> tuple[Matrix, Vector]:
        """radius >= 2-norm of the sums by group, as rows of a second-order cone."""
        n_groups, n = int(block.groups.max()) + 1, len(self.unit)
        rows = np.zeros((1 + n_groups, n + self.n_more))
        for i, group in enumerate(block.groups):
            rows[1 + group, part.start + i] = -self.unit[part.start + i]
        length = float(np.abs(rows).max())
        right = np.zeros(1 + n_groups)
        right[0] = float(block.radius) / length
        return rows / length, right

    def _active(
        self,
        z: Vector,
        slacks: Vector,
        duals: Vector,
        where: list[tuple[str, int]],
        n_linear: int,
        balls: list[tuple[Matrix, Vector]],
    ) -> _Active:
        """The active set where slacks are smaller than multipliers."""
        is_tight = slacks < duals
        by_kind: dict[str, set[int]] = {}
        for (kind, index), tight in zip(where, is_tight[:n_linear], strict=True):
            if tight:
                by_kind.setdefault(kind, set()).add(index)
        none: set[int] = set()
        at_zero = by_kind.get("zero", none) | (by_kind.get("above", none) & by_kind.get("below", none))
        surfaces, start = set(by_kind.get("ball", none)), n_linear
        numbers = [k for k, (block, _) in enumerate(self.model.parts) if block.is_ball and block.norm == 2]
        for number, (rows, _) in zip(numbers, balls, strict=True):
            s, d = slacks[start : start + len(rows)], duals[start : start + len(rows)]
            if s[0] - np.linalg.norm(s[1:]) < d[0]:
                surfaces.add(number)
            start += len(rows)
        for vector in self.vectors:
            end = start + 1 + vector.stop - vector.start
            if slacks[start] < duals[start] - np.linalg.norm(duals[start + 1 : end]):
                at_zero |= set(range(vector.start, vector.stop))
            start = end
        is_fixed, fixed = np.zeros(len(z), dtype=np.bool_), z.copy()
        for i in at_zero:
            is_fixed[i], fixed[i] = True, 0.0
        radius = np.concatenate([np.full(len(block.slope), block.radius) for block in self.model.blocks])
        for kind, sign in (("upper", 1.0), ("lower", -1.0)):
            for i in by_kind.get(kind, none) - at_zero:
                is_fixed[i], fixed[i] = True, sign * radius[i]
        return _Active(fixed, is_fixed, np.sign(z), tuple(sorted(surfaces)))

"""Random problems of every kind and scale: does the public surface answer, or refuse in one sentence?

    python tools/fuzz.py                    a few thousand problems, from seed 0
    python tools/fuzz.py --seed 7 --n 1     problem 7 alone
    python tools/fuzz.py --minutes 60       as many problems as an hour allows

Problem number k is a function of k alone. Each is a small ragged MDP with units from 1e-8 to 1e8, discounts from 0.5 to
0.99999 and up to 30 reward and 40 preference features. A failure is one of

    escaped      an exception that is not a `TutelageError`, or a warning
    loose        an answer whose certificate is not tight, or that violates a hard preference
    unanswered   `NotConverged` where an answer exists
    slow         more than 5 s of processor time (the search for a bi-level bound may take longer)

The last cases damage files and worlds, or make hostile ones: row starts that point outside, names that are no text,
lists that are small on disk and large in memory. `tests/playground/test_schema.py` makes requests to the server.
"""

import argparse
import json
import math
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from typer.testing import CliRunner

import tutelage as tl
from tutelage.cli.app import make_app

LONGEST = 5.0
TIGHT = 1e-6
MOST_MEMORY = 6 * 2**30
NORMS = (1, 2, math.inf)


@dataclass(frozen=True)
class Failure:
    """kind: one of the words above. problem: the seed; case: the call. reproduce with `--seed problem --n 1`."""

    problem: int
    case: str
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:10s} {self.case:22s} {self.detail[:150]}   python tools/fuzz.py --seed {self.problem} --n 1"


@dataclass(frozen=True)
class Problem:
    """A domain, true weights of its own size, and the units of its features."""

    domain: tl.Domain
    weights: np.ndarray
    reward_unit: float
    preference_unit: float
    rng: Generator

    @property
    def horizon(self) -> float:
        return 1 / (1 - self.domain.mdp.discount)

    def lesson(self) -> tl.Lesson:
        """The expectation of an optimal, a random or no policy."""
        kind, domain = self.rng.integers(3), self.domain
        if kind == 0:
            return tl.Lesson.from_policy(
                domain, tl.solve_hard(domain.mdp, domain.reward_features @ self.weights).policy
            )
        policy = _random_policy(self.rng, domain.mdp)
        if kind == 1:
            return tl.Lesson.from_policy(domain, policy)
        shown = tl.expectation(domain, policy).reward
        noise = 0.1 * self.horizon * self.reward_unit * self.rng.normal(size=domain.n_reward)
        return tl.Lesson.from_expectation(shown + noise)

    def allowance(self) -> np.ndarray:
        """What some policy keeps, or what none may."""
        slack = self.rng.choice([0.0, 0.02, 0.3]) * self.horizon * self.preference_unit
        kept = tl.expectation(self.domain, _random_policy(self.rng, self.domain.mdp)).preference
        return np.maximum(kept, 0.0) + slack

    def mismatch(self) -> tl.Mismatch:
        norm, size = self.rng.choice(NORMS), 10 ** self.rng.uniform(-2, 3)
        if self.rng.random() < 0.15:
            return tl.Mismatch(norm=2, penalty=size / self.reward_unit**2, squared=True)
        slack = self.rng.choice([0.0, 0.0, 0.05]) * self.horizon * self.reward_unit
        return tl.Mismatch(norm=norm, penalty=size / self.reward_unit, allowance=slack)

    def preference(self) -> tl.Preference:
        norm, size, d_c = self.rng.choice(NORMS), 10 ** self.rng.uniform(-2, 3), self.domain.n_preference
        penalty = math.inf if self.rng.random() < 0.3 else size / self.preference_unit
        functions, allowance = (), self.allowance()
        if d_c and self.rng.random() < 0.3:
            centre = tl.expectation(self.domain, _random_policy(self.rng, self.domain.mdp)).preference
            functions = (tl.distance_constraint("far", centre),)
            allowance = np.append(allowance, self.rng.choice([0.01, 0.2]) * self.horizon * self.preference_unit)
        return tl.Preference(norm=norm, penalty=penalty, allowance=allowance, functions=functions)


def _random_policy(rng: Generator, mdp: tl.MDP) -> np.ndarray:
    weights = rng.exponential(size=mdp.n_choices)
    return weights / np.repeat(np.add.reduceat(weights, mdp.first_choice[:-1]), np.diff(mdp.first_choice))


def problem(seed: int) -> Problem:
    """Problem number `seed`."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    first = np.concatenate([[0], np.cumsum(rng.integers(1, 5, size=n))])
    rows = np.zeros((first[-1], n))
    for row in rows:
        reached = rng.choice(n, size=min(n, int(rng.integers(1, 4))), replace=False)
        row[reached] = rng.dirichlet(np.ones(len(reached)))
    discount = 1 - 0.5 * 10 ** -rng.uniform(0, 4.7)
    mdp = tl.MDP.from_choices(rows, first, rng.dirichlet(np.ones(n)), discount)
    d_r = int(rng.integers(1, 6) if rng.random() < 0.7 else rng.integers(6, 31))
    d_c = int(rng.integers(0, 6) if rng.random() < 0.7 else rng.integers(6, 41))
    units = 10 ** rng.uniform(-8, 8, size=2) if rng.random() < 0.7 else np.ones(2)
    features = [unit * _features(rng, mdp, d) for unit, d in zip(units, (d_r, d_c), strict=True)]
    names = [tuple(f"{kind}{i}" for i in range(d)) for kind, d in (("r", d_r), ("c", d_c))]
    weights = rng.normal(size=d_r) * 10 ** (rng.uniform(-8, 8) * (rng.random() < 0.5))
    return Problem(tl.Domain(mdp, *features, *names), weights, *units, rng)


def _features(rng: Generator, mdp: tl.MDP, count: int) -> np.ndarray:
    shape = (mdp.n_states if rng.random() < 0.5 else mdp.n_choices, count)
    values = rng.random(shape) * (rng.random(shape) < 0.67)
    if rng.random() < 0.3:
        values = (values > 0.5).astype(float)
    if rng.random() < 0.2:
        values = 2 * values - 1
    if rng.random() < 0.1:
        values *= 10 ** rng.uniform(-4, 4, size=count)
    return values


def _hard_excess(found: tl.Response, learner: object, given: Problem) -> float:
    """The largest violation of a hard preference, relative to the size of the expectations."""
    if not math.isinf(learner.preference.penalty) or not len(found.violation_excess):
        return 0.0
    size = given.horizon * np.abs(given.domain.preference_features).max(initial=0.0)
    return float(found.violation_excess.max()) / max(size, 1e-300)


def _check_response(given: Problem, learner: object) -> None:
    found = learner.respond(given.lesson())
    proof = found.certificate
    # Beside a long horizon, a gap of a few nats in 1e8 steps is rounding.
    gap = min(proof.relative_gap, TIGHT * proof.gap / (1e-8 * given.horizon))
    if isinstance(learner, tl.HardLearner):
        gap = proof.gap / (given.horizon * np.abs(given.domain.reward_features).max() + abs(proof.primal) + 1e-300)
    assert gap <= TIGHT, f"relative gap {gap:.3g}, {proof.ended.name}"
    excess = _hard_excess(found, learner, given)
    assert excess <= TIGHT, f"hard preference violated by {excess:.3g}"


def standard(given: Problem) -> None:
    _check_response(given, tl.StandardLearner(given.domain))


def soft(given: Problem) -> None:
    sizes = 10 ** given.rng.uniform(-2, 3, size=2)
    learner = tl.SoftLearner(
        given.domain,
        mismatch_penalty=sizes[0] / given.reward_unit,
        violation_penalty=sizes[1] / given.preference_unit,
        violation_allowance=given.allowance(),
    )
    _check_response(given, learner)


def generic(given: Problem) -> None:
    _check_response(given, tl.GenericLearner(given.domain, given.mismatch(), given.preference()))


def approximate(given: Problem) -> None:
    is_squared = bool(given.rng.random() < 0.5)
    penalty = 10 ** given.rng.uniform(-1, 2) / given.reward_unit ** (2 if is_squared else 1)
    allowance = given.allowance()
    learner = tl.ApproximateHardLearner(
        given.domain, mismatch_penalty=penalty, violation_allowance=allowance, squared=is_squared
    )
    _check_response(given, learner)


def hard(given: Problem) -> None:
    within = given.rng.choice([0.0, 0.0, 0.05]) * given.horizon * given.reward_unit
    learner = tl.HardLearner(
        given.domain, given.allowance(), norm=float(given.rng.choice(NORMS)), entropic_within=within or None
    )
    _check_response(given, learner)


def _limits(given: Problem) -> tl.HalfSpaces:
    if given.rng.random() < 0.4:
        return tl.no_limits(given.domain)
    return tl.preference_limits(given.domain, given.allowance())


def best(given: Problem) -> None:
    found = tl.best_policy(given.domain, given.weights, _limits(given))
    size = given.horizon * float((np.abs(given.domain.reward_features) * np.abs(given.weights)).sum(axis=1).max())
    assert found.gap <= TIGHT * size + 1e-300, f"gap {found.gap:.3g} of {size:.3g}"


def nearest(given: Problem) -> None:
    target = given.lesson().expectation
    found = tl.nearest_policy(given.domain, target, _limits(given), norm=float(given.rng.choice(NORMS)))
    size = given.horizon * np.abs(given.domain.reward_features).max() + found.value
    assert found.gap <= TIGHT * size + 1e-300, f"gap {found.gap:.3g} of {size:.3g}"


def violation(given: Problem) -> None:
    limits = tl.preference_limits(given.domain, given.allowance() * given.rng.choice([0.0, 0.5, 1.0]))
    tl.least_violation(given.domain, limits)
    tl.strictest_policy(given.domain, given.weights, limits)


def bellman(given: Problem) -> None:
    reward = given.domain.reward_features @ given.weights
    found, mdp = tl.solve_hard(given.domain.mdp, reward), given.domain.mdp
    lost = float(mdp.initial @ found.value) - tl.expected_reward(mdp, found.policy, reward)
    size = given.horizon * float(np.abs(reward).max())
    assert abs(lost) <= 1e-8 * size + 1e-300, f"the policy earns {lost / size:.3g} less than the value"


def _known_learner(given: Problem) -> tl.GenericLearner:
    return tl.GenericLearner(given.domain, given.mismatch(), given.preference())


def bilevel(given: Problem, max_cells: int = 0) -> None:
    plan = tl.BilevelTeacher(given.domain, given.weights, _known_learner(given), max_cells=max_cells).plan()
    size = given.horizon * float((np.abs(given.domain.reward_features) * np.abs(given.weights)).sum(axis=1).max())
    assert plan.achieved <= plan.bound + TIGHT * size, f"{plan.achieved} above the bound {plan.bound}"
    assert abs(plan.achieved - plan.predicted) <= 1e-3 * size, f"{plan.predicted} predicted, {plan.achieved} achieved"


def bounded(given: Problem) -> None:
    bilevel(given, max_cells=2)


def aware(given: Problem) -> None:
    tl.AwareCmdpTeacher(given.domain, given.weights, _known_learner(given)).plan()


def conservative(given: Problem) -> None:
    tl.ConservativeTeacher(given.domain, given.weights, allowance=given.allowance()).open()


def _taught(given: Problem, teacher: tl.Teacher) -> None:
    learner = tl.HardLearner(given.domain, given.allowance())
    try:
        tl.teach(teacher, learner, max_rounds=4)
    except tl.InteractionFailed as failure:
        if not isinstance(failure.__cause__, tl.TutelageError):
            raise failure.__cause__ from None
        raise failure.__cause__ from None


def volume(given: Problem) -> None:
    _taught(given, tl.VolumeSearchTeacher(given.domain, given.weights))


def line(given: Problem) -> None:
    _taught(given, tl.LineSearchTeacher(given.domain, given.weights))


def _damaged(rng: Generator, data: bytes) -> bytes:
    """The bytes cut, some of them changed, or a part repeated."""
    kind, at = rng.integers(3), int(rng.integers(len(data)))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at // 2 :]
    changed = bytearray(data)
    for place in rng.integers(len(data), size=rng.integers(1, 9)):
        changed[place] = rng.integers(256)
    return bytes(changed)


def _refused_or_read(read: Callable[[], object]) -> None:
    """A damaged file may still be valid; otherwise it is refused in one sentence."""
    try:
        read()
    except tl.TutelageError as refusal:
        assert len(str(refusal)) <= 300, f"a refusal of {len(str(refusal))} characters"


def files(given: Problem) -> None:
    taught = tl.teach(tl.AgnosticTeacher(given.domain, given.weights), tl.HardLearner(given.domain, 1e300))
    with tempfile.TemporaryDirectory() as folder:
        domain, transcript, shown = (Path(folder) / name for name in ("domain.npz", "transcript.npz", "shown.npz"))
        tl.save(given.domain, domain)
        tl.save_transcript(taught, transcript)
        policy = tl.uniform_policy(given.domain.mdp)
        tl.save_demonstrations(
            tl.sample_demonstrations(given.domain, policy, 2, rng=given.rng, truncation_bias=0.9 * given.horizon),
            shown,
        )
        for path in (domain, transcript, shown):
            path.write_bytes(_damaged(given.rng, path.read_bytes()))
        _refused_or_read(lambda: tl.load(domain))
        _refused_or_read(lambda: tl.load_transcript(transcript, given.domain))
        _refused_or_read(lambda: tl.load_demonstrations(shown, given.domain))


def _hostile_starts(rng: Generator, starts: np.ndarray) -> np.ndarray:
    """Row starts of a sparse matrix, some of which point outside, backwards, or nowhere."""
    starts = starts.astype(np.int64)
    at, far = int(rng.integers(len(starts))), int(rng.choice([-1, 50, 2**31 - 1, 2**31, 2**62]))
    starts[at] = far
    starts[-1] = rng.choice([starts[-1], 0, far])
    return starts


def _hostile_text(rng: Generator) -> bytes:
    """JSON texts of names: of surrogates, control characters, numbers without end, nested or endless lists."""
    odd = (
        '"\\ud800"',
        '"\\u0000"',
        '"\\u001b[31m"',
        '"\\u202e"',
        "1e400",
        "-1e400",
        "NaN",
        "null",
        '"=HYPERLINK(1)"',
        "[]",
        "{}",
        '""',
        "10" * 2_000,
        "[" * 5_000 + "]" * 5_000,
        '{"rows": 1000000000, "columns": 1000000000}',
        "true",
        '"\xff"',
    )
    name = str(rng.choice(odd))
    count = min(int(rng.choice([1, 2, 3, 100_000])), 1 + 10**6 // len(name))
    return ("[" + ", ".join([name] * count) + "]").encode("latin-1")


def _hostile_names(rng: Generator) -> np.ndarray:
    """Arrays of text: code points that do not exist, lone surrogates, control characters, or far too many."""
    kind = rng.integers(4)
    if kind == 0:
        return np.full((2, 4), rng.choice([0x110000, 0xFFFFFFFF, 0xD800, 0x1B]), dtype="<u4").view("<U4")[:, 0]
    if kind == 1:
        return np.full(int(rng.choice([0, 1, 10**6])), "x")
    return np.array([["a"]]) if kind == 2 else np.array([b"a", b"b"])


def hostile(given: Problem) -> None:
    """A domain file in which one field is what an attacker would write."""
    rng = given.rng
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "domain.npz"
        tl.save(given.domain, path)
        fields = dict(np.load(path, allow_pickle=False))
        kind = rng.integers(4)
        if kind == 0:
            fields["transition_indptr"] = _hostile_starts(rng, fields["transition_indptr"])
            fields["transition_indices"] = fields["transition_indices"][: rng.choice([0, 1, 10**6])]
            fields["transition_data"] = fields["transition_data"][: len(fields["transition_indices"])]
        elif kind == 1:
            name = rng.choice(["state_names", "choice_names"])
            fields[name] = np.frombuffer(_hostile_text(rng), dtype=np.uint8)
        elif kind == 2:
            fields[rng.choice(["reward_names", "preference_names"])] = _hostile_names(rng)
        else:
            name = rng.choice(["first_choice", "initial", "discount", "reward_features", "goals", "positions"])
            junk = (np.zeros(0), np.array(np.nan), np.array([-1, 2**62]), np.zeros((1, 0, 5)), np.array("x"))
            fields[name] = junk[rng.integers(len(junk))]
        np.savez_compressed(path, **fields)
        _refused_or_read(lambda: tl.load(path))
        for form in ([], ["--json"]):
            shown = CliRunner().invoke(make_app(), ["info", str(path), *form], env={"TERM": "dumb"})
            if shown.exception is not None and not isinstance(shown.exception, SystemExit | tl.TutelageError):
                raise shown.exception
            assert "\x1b[31m" not in shown.output, "an escape sequence of a name reaches the terminal"


def journeys(given: Problem) -> None:
    """Arrival with probabilities down to 1e-300: a probability, and steps that are not negative."""
    rng, n = given.rng, int(given.rng.integers(2, 9))
    tiny = 10.0 ** -rng.uniform(0, 300, size=n - 1)
    rows = np.zeros((n, n))
    rows[-1, -1] = 1.0
    for state in range(n - 1):
        rows[state, rng.integers(n - 1)] = 1.0 - tiny[state]
        rows[state, state + 1] += tiny[state]
    mdp = tl.MDP.from_choices(rows, np.arange(n + 1), np.eye(n)[0], 0.9)
    reached = tl.arrival(mdp, np.ones(n), goals=[n - 1])
    assert 0 <= reached.probability <= 1 and reached.steps >= 0, f"{reached.probability} after {reached.steps} steps"


def prices(given: Problem) -> None:
    """The prices u of the limits: no policy earns more than reward - u @ c + u @ delta by more than the gap."""
    limits, domain = _limits(given), given.domain
    plan = tl.best_policy(domain, given.weights, limits)
    u = np.asarray(plan.multipliers)
    weights = np.concatenate([given.weights, np.zeros(domain.n_preference)])
    reward = tl.combined_features(domain) @ (weights - limits.normals.T @ u)
    best = tl.solve_hard(domain.mdp, reward, accuracy=1e-9 * max(float(np.abs(reward).max()), 1e-300) * given.horizon)
    dual = float(domain.mdp.initial @ best.value) + float(u @ limits.offsets)
    scale = abs(plan.value) + float(np.abs(domain.reward_features @ given.weights).max()) * given.horizon
    assert dual <= plan.value + plan.gap + 1e-6 * scale, f"the prices prove {dual:g}, the plan earns {plan.value:g}"


def tables(given: Problem) -> None:
    """Demonstrations as text with hostile cells: the same names, and numbers without end."""
    rng, cells = (
        given.rng,
        ["0", "1", "-1", "1e400", "nan", "", "=1+1", "\x1b[31m", "x" * 9_999, "9" * 400, '"', "\udc80"],
    )
    chosen = [[str(rng.choice(cells)) for _ in range(4)] for _ in range(int(rng.integers(1, 6)))]
    with tempfile.TemporaryDirectory() as folder:
        csv, lines = Path(folder) / "shown.csv", Path(folder) / "shown.jsonl"
        text = "\n".join([str(rng.choice(["episode,step,state,action", "state,action,a,b"])), *map(",".join, chosen)])
        csv.write_bytes(text.encode("utf-8", "surrogatepass"))
        rows = [f'{{"states": [{row[0]}, {row[1]}], "actions": [{row[2]}]}}' for row in chosen]
        lines.write_bytes("\n".join(rows).encode("utf-8", "surrogatepass"))
        _refused_or_read(lambda: tl.load_demonstrations(csv, given.domain))
        _refused_or_read(lambda: tl.load_demonstrations(lines, given.domain))


def worlds(given: Problem) -> None:
    rng = given.rng
    fields = json.loads(tl.object_world(size=int(rng.integers(8, 12)), seed=int(rng.integers(9))).to_json())
    junk = (None, True, -1, 1e308, math.nan, "", "x" * 999, [], [[]], {}, [None], [-1, 10**30], {"a": [1]})
    name = rng.choice(list(fields))
    fields[name] = junk[rng.integers(len(junk))]
    _refused_or_read(lambda: tl.ObjectWorld.from_json(json.dumps(fields)))
    _refused_or_read(lambda: tl.ObjectWorld.from_json(_damaged(rng, json.dumps(fields).encode())))


CASES: tuple[Callable[[Problem], None], ...] = (
    standard,
    soft,
    generic,
    approximate,
    hard,
    best,
    nearest,
    violation,
    bellman,
    bilevel,
    bounded,
    aware,
    conservative,
    volume,
    line,
    prices,
    journeys,
    files,
    hostile,
    tables,
    worlds,
)


def outcome(case: Callable[[Problem], None], seed: int) -> tuple[str, str]:
    """How the case ends on this problem: a kind of failure or "answered" or "refused", and a detail."""
    given = problem(seed)
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            case(given)
        kind, detail = "answered", ""
    except (tl.InfeasibleConstraints, tl.InvalidInput) as refusal:
        kind, detail = "refused", str(refusal)
    except tl.NotConverged as end:
        # A learner that must match exactly may have no answer; the message says why.
        kind = "refused" if "must be exact" in str(end) else "unanswered"
        detail = str(end)
    except AssertionError as loose:
        kind, detail = "loose", str(loose)
    except Exception as error:  # any exception is the subject here
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind, detail = (
            "escaped",
            f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})",
        )
    spent = time.process_time() - start
    if spent > LONGEST and case is not bounded:
        kind, detail = "slow", f"{spent:.1f} s, {kind} {detail}"
    return kind, detail


def failures(
    seeds: range, cases: tuple[Callable[[Problem], None], ...], count: Counter[tuple[str, str]]
) -> Iterator[Failure]:
    """The failures of all cases on these problems; count: of every kind by case, updated."""
    for seed in seeds:
        for case in cases:
            kind, detail = outcome(case, seed)
            count[case.__name__, kind] += 1
            if kind not in ("answered", "refused"):
                yield Failure(seed, case.__name__, kind, detail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=math.inf, help="end after this time; --n is then no limit")
    parser.add_argument("--case", action="append", choices=[case.__name__ for case in CASES])
    given = parser.parse_args()
    cases = tuple(case for case in CASES if given.case is None or case.__name__ in given.case)
    count: Counter[tuple[str, str]] = Counter()
    # A file that is small on disk and large in memory is then an exception, not a machine that stands still.
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    n_failed, end = 0, time.monotonic() + 60 * given.minutes
    last = given.seed + (given.n if math.isinf(given.minutes) else 10**9)
    for seed in range(given.seed, last):
        if time.monotonic() > end:
            break
        for failure in failures(range(seed, seed + 1), cases, count):
            print(failure, flush=True)
            n_failed += 1
    for (case, kind), n in sorted(count.items()):
        print(f"{case:14s} {kind:12s} {n}")
    return min(n_failed, 1)


if __name__ == "__main__":
    sys.exit(main())

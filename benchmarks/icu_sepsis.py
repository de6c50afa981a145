"""`python -m benchmarks.icu_sepsis`: clinicians who are reluctant to give high doses, shown the optimum or a lesson.

`python -m benchmarks.icu_sepsis bi-level` plans for clinicians who exceed their limits at a cost, in about a minute.

ICU-Sepsis (Choudhary, Gupta and Thomas, "ICU-Sepsis: A benchmark MDP built from real medical data", Reinforcement
Learning Journal 4, 2024, 1546-1566; MIT licence) is a model of the treatment of sepsis in blocks of four hours. It is a
benchmark for algorithms. Its authors emphasise that it should not be used to draw conclusions that guide medical
practice; that holds for everything computed here.

The data are read from the installed package (`pip install --no-deps icu-sepsis`); nothing of it is imported.
"""

import importlib.util
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

import tutelage as tl
from tutelage.arrays import Vector
from tutelage.outcomes import watched

# States 0 to 712 are patients; then death and survival.
N_PATIENTS, DEAD, WELL, N_LEVELS = 713, 713, 714, 5
SEVERE, HIGH = 10, 3
ALLOWANCE = {"high vasopressor": 0.05, "high fluid": 0.5}
# Gaps of the bi-level bound whose time is printed.
GAPS = (0.03, 0.02, 0.01, 0.005)


class Ward(NamedTuple):
    """The domain, the weights of its reward, and what clinicians do (C,)."""

    domain: tl.Domain
    survival: Vector
    clinicians: Vector


def assets() -> Path | None:
    """The folder of the data, if the package is installed."""
    spec = importlib.util.find_spec("icu_sepsis")
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0]) / "envs" / "assets" if folders else None


def ward(folder: Path) -> Ward:
    """The treatments that were given often enough, without discount; action 5 * fluid level + vasopressor level."""
    data = np.load(folder / "dynamics.npz")
    lines = (folder / "admissible_actions.txt").read_text(encoding="utf-8").splitlines()[1:]
    offered = [[int(action) for action in line.split()] for line in lines[:N_PATIENTS]]
    state = np.repeat(np.arange(N_PATIENTS), [len(actions) for actions in offered])
    action = np.concatenate(offered)
    rows = np.zeros((len(state) + 2, WELL + 1))
    rows[:-2] = data["tx_mat"][state, action][:, : WELL + 1]
    rows[[-2, -1], [DEAD, WELL]] = 1.0
    first = np.searchsorted(state, np.arange(N_PATIENTS + 1))
    mdp = tl.MDP.from_choices(
        sparse.csr_array(rows), [*first, len(state) + 1, len(state) + 2], data["d_0"][: WELL + 1], 1.0,
        state_names=[*(f"patient {number}" for number in range(N_PATIENTS)), "dead", "well"],
        choice_names=[*(f"fluid {a // N_LEVELS}, vasopressor {a % N_LEVELS}" for a in action), "end", "end"],
    )  # fmt: skip
    fluid, vasopressor, severe = action // N_LEVELS, action % N_LEVELS, data["sofa_scores"][state] >= SEVERE
    arrived = np.zeros(rows.shape)
    arrived[:-2, WELL] = 1.0
    counted = {
        "blocks": np.ones(len(state)), "severe blocks": severe,
        "any vasopressor": vasopressor > 0, "any fluid": fluid > 0,
        "high vasopressor": vasopressor >= HIGH, "high fluid": fluid >= HIGH,
    }  # fmt: skip
    columns = {name: np.append(values.astype(float), [0.0, 0.0]) for name, values in counted.items()}
    reward = {"survival": sparse.csr_array(arrived)} | {name: columns[name] for name in list(columns)[:4]}
    domain = tl.Domain(mdp, reward, {name: columns[name] for name in ALLOWANCE})
    # A treatment that was given too seldom has the mean effect of those that were given often enough.
    often = data["expert_policy"][state, action]
    seldom = 1 - np.add.reduceat(often, first[:-1])
    done = often + np.repeat(seldom / np.diff(first), np.diff(first))
    return Ward(domain, np.eye(5)[0], np.append(done, [1.0, 1.0]))


def soft_learner(domain: tl.Domain) -> tl.SoftLearner:
    """Clinicians who match survival, blocks, severe blocks and blocks with any vasopressor, and pay for violations."""
    features = {name: domain.reward_features[:, k] for k, name in enumerate(domain.reward_names[:4])}
    preferences = dict(zip(domain.preference_names, domain.preference_features.T, strict=True))
    smaller = tl.Domain(domain.mdp, features, preferences)
    return tl.SoftLearner(smaller, mismatch_penalty=5, violation_penalty=10, violation_allowance=ALLOWANCE)


def bilevel(domain: tl.Domain) -> None:
    """Print the bi-level lesson for the soft learner, and when its bound comes how close, in processor seconds."""
    learner, started, closer = soft_learner(domain), time.process_time(), list(GAPS)
    teacher = tl.BilevelTeacher(learner.domain, np.eye(4)[0], learner, max_cells=100_000)
    plan, planned = teacher.lesson_plan(), time.process_time()
    print(f"lesson: survival {plan.achieved:.4f} in {planned - started:.1f} s; the best policy has {plan.bound:.4f}")

    def show(step: tl.Progress) -> None:
        while step.stage == "cells" and closer and step.gap * teacher.reward_unit <= closer[0]:
            print(f"gap {closer.pop(0)} after {step.done} cells and {time.process_time() - planned:.1f} s")

    with watched(None, show):
        plan = teacher.bounded(plan)
    seconds = time.process_time() - planned
    print(f"no lesson has more than {plan.bound:.4f} (gap {plan.gap:.4f}): {plan.n_cells} cells in {seconds:.1f} s")


def main() -> None:
    """Print the policies, the responses of reluctant clinicians, and the prices of their limits."""
    folder = assets()
    if folder is None:
        raise SystemExit("the data are missing: pip install --no-deps icu-sepsis")
    domain, survival, clinicians = ward(folder)
    if "bi-level" in sys.argv[1:]:
        bilevel(domain)
        return
    best = tl.solve_hard(domain.mdp, domain.reward_features @ survival).policy
    print(f"{domain.mdp}; the longest expected stay is {domain.mdp.horizon:.2f} blocks")
    learner = tl.HardLearner(domain, violation_allowance=ALLOWANCE)
    aware = tl.best_policy(domain, survival, tl.preference_limits(domain, ALLOWANCE))
    lesson = tl.AwareCmdpTeacher(domain, survival, learner).open().lesson
    shown = learner.respond(tl.Lesson.from_policy(domain, best)).policy
    taught = learner.respond(lesson).policy
    for name, policy in {
        "random": tl.uniform_policy(domain.mdp), "clinicians": clinicians, "optimal": best,
        "reluctant, shown the optimum": shown, "reluctant, aware lesson": taught,
    }.items():  # fmt: skip
        met = tl.expectation(domain, policy)
        doses = " ".join(f"{count:.3f}" for count in met.preference)
        print(f"{name:29} survival {met.reward[0]:.4f}  blocks {met.reward[1]:5.2f}  high doses {doses}")
    prices = ", ".join(
        f"{price:.4f} per block of {name}" for name, price in zip(ALLOWANCE, aware.multipliers, strict=True)
    )
    print(f"best within the limits {aware.value:.6f}; a limit costs {prices}")
    looser = tl.preference_limits(domain, ALLOWANCE | {"high fluid": 1.0})
    print(f"with one block of high fluid {tl.best_policy(domain, survival, looser).value:.6f}")


if __name__ == "__main__":
    main()

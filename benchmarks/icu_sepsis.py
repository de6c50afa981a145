"""`python -m benchmarks.icu_sepsis`: clinicians who are reluctant to give high doses, shown the optimum or a lesson.

ICU-Sepsis (Choudhary, Gupta and Thomas, "ICU-Sepsis: A benchmark MDP built from real medical data", Reinforcement
Learning Journal 4, 2024, 1546-1566; MIT licence) is a model of the treatment of sepsis in blocks of four hours. It is a
benchmark for algorithms. Its authors emphasise that it should not be used to draw conclusions that guide medical
practice; that holds for everything computed here.

The data are read from the installed package (`pip install --no-deps icu-sepsis`); nothing of it is imported.
"""

import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

import tutelage as tl
from tutelage.arrays import Vector

# States 0 to 712 are patients; then death and survival.
N_PATIENTS, DEAD, WELL, N_LEVELS = 713, 713, 714, 5
SEVERE, HIGH = 10, 3
ALLOWANCE = {"high vasopressor": 0.05, "high fluid": 0.5}


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


def main() -> None:
    """Print the policies, the responses of reluctant clinicians, and the prices of their limits."""
    folder = assets()
    if folder is None:
        raise SystemExit("the data are missing: pip install --no-deps icu-sepsis")
    domain, survival, clinicians = ward(folder)
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

"""`python -m benchmarks.arena_icu`: the arena's learners with hard limits on ICU-Sepsis, taught aware or not.

The limits are those of the arena: three tenths of the way from the least doses that are possible to those of the
optimum. As `benchmarks.icu_sepsis` says, nothing here is to guide medical practice.
"""

import numpy as np

import tutelage as tl
from benchmarks.icu_sepsis import assets, ward
from tutelage.experiments import arena

SEEDS = range(3)


def main() -> None:
    """Print the share of patients who survive: the mean of three samples of demonstrations, and its error."""
    folder = assets()
    if folder is None:
        raise SystemExit("the data are missing: pip install --no-deps icu-sepsis")
    found = ward(folder)
    domain, weights = arena.limited(found.domain, found.survival)
    random = tl.expectation(domain, tl.uniform_policy(domain.mdp)).reward @ weights
    most = tl.best_policy(domain, weights, tl.preference_limits(domain, 1.0)).bound
    print(f"random treatment {random:.4f}, best within the limits {most:.4f}")
    for name in ("maximum entropy", "sequential", "cloning"):
        for is_aware in (False, True):
            rewards = []
            for seed in SEEDS:
                learner = arena.make_learner(domain, seed, name=name, kind="hard")
                teacher = arena.make_teacher(domain, weights, learner, seed, name="random", is_aware=is_aware)
                rewards.append(tl.teach(teacher, learner, max_rounds=arena.N_ROUNDS).final.response_reward)
            error = np.std(rewards, ddof=1) / np.sqrt(len(rewards))
            print(f"{name:16} {'aware' if is_aware else 'plain'} {np.mean(rewards):.4f} ±{error:.4f}", flush=True)


if __name__ == "__main__":
    main()

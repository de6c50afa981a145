"""Two domains of a user and a plan, for the tests of plans and of sweeps."""

import numpy as np
import pytest
from strategies import add_features, build_mdp

import tutelage as tl

PLAN = """
seeds = [0, 1]

[[domain]]
file = ["first.npz", "second.npz"]
weights = {"reward 0" = 1, "reward 1" = -0.5}

[[domain]]
world = "text:0:4"

[[learner]]
model = "soft"
mismatch_penalty = [1, 5]
n_sampled = 3

[[learner]]
model = "hard"
allowance = 1e4
preferences = ["all"]

[[teacher]]
name = ["agnostic", "aware-cmdp"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two domains of a user, and a plan beside them."""
    folder = tmp_path_factory.mktemp("sweep")
    for number, name in enumerate(("first", "second")):
        rng = np.random.default_rng(number)
        mdp = build_mdp(rng, rng.integers(1, 4, size=6), 0.8)
        kinds = {"reward_on_choices": True, "preference_on_choices": False}
        tl.save(add_features(rng, mdp, n_reward=2, n_preference=2, **kinds), folder / f"{name}.npz")
    (folder / "plan.toml").write_text(PLAN)
    return folder

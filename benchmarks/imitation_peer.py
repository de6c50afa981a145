"""A script for the Python of another environment: `imitation`'s tabular MCE-IRL on a problem from a file.

    python -I imitation_peer.py problem.npz answer.npz

problem: transition (S, A, S), features (S, d), initial (S,), occupancy (S,), horizon, max_steps, learning_rate.
answer: policy (horizon, S, A), the seconds of training, and n_steps, the steps until it stopped by its own rule and
tolerances or reached `max_steps`. Does not import Tutelage. Exit code 3: `imitation` is not installed.
"""

import sys
import time
from importlib.util import find_spec
from typing import Any

NOT_INSTALLED = 3


def main(problem_path: str, answer_path: str) -> None:
    """Read the problem, train, and write the answer."""
    if find_spec("imitation") is None:
        sys.exit(NOT_INSTALLED)
    import numpy as np

    problem = dict(np.load(problem_path))
    learner = _learner(problem)
    start = time.perf_counter()
    learner.train(max_iter=int(problem["max_steps"]))
    seconds = time.perf_counter() - start
    (*_, state) = learner.optimizer.state.values()
    np.savez(answer_path, policy=learner.policy.pi, seconds=seconds, n_steps=int(state["step"]))


def _learner(problem: "dict[str, Any]") -> Any:
    """MCE-IRL with a reward that is linear in the features, trained by Adam."""
    import numpy as np
    import torch
    from imitation.algorithms.mce_irl import MCEIRL
    from imitation.rewards.reward_nets import BasicRewardNet
    from seals.base_envs import TabularModelPOMDP

    # The initial weights are random.
    torch.manual_seed(0)
    features = problem["features"].astype(np.float32)
    env = TabularModelPOMDP(
        transition_matrix=problem["transition"],
        observation_matrix=features,
        reward_matrix=np.zeros(len(features)),
        horizon=int(problem["horizon"]),
        initial_state_dist=problem["initial"],
    )
    net = BasicRewardNet(
        env.observation_space, env.action_space, hid_sizes=[], use_action=False, use_done=False, use_next_state=False
    )
    # Discount 1: the transition already contains the probability of ending.
    options = {"discount": 1.0, "log_interval": None, "optimizer_kwargs": {"lr": float(problem["learning_rate"])}}
    return MCEIRL(problem["occupancy"], env, net, np.random.default_rng(0), **options)


if __name__ == "__main__":
    main(*sys.argv[1:])

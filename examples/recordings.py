"""Recorded episodes: what a learner with preferences makes of a log, and what to show it instead.

This example shows how a log of an environment becomes demonstrations. The log is a CSV file with one line per step, as
any program writes it. An episode that terminated ends in the environment's own last state, and that is understood.
"""

import csv

import gymnasium
import numpy as np

import tutelage as tl

env, rng = gymnasium.make("FrozenLake-v1", success_rate=0.8), np.random.default_rng(0)
lake = tl.from_gymnasium(
    env,
    discount=0.9,
    reward_features=np.eye(16),  # where the agent arrives
    preference_features=lambda state: {"hole": env.get_wrapper_attr("desc").ravel()[state] == b"H"},
)
is_goal = np.eye(16)[15]
expert = tl.solve_hard(lake.mdp, lake.reward_features @ is_goal).policy.reshape(-1, 4)
with open("log.csv", "w", newline="") as file:  # noqa: PTH123
    writer = csv.writer(file)
    writer.writerow(["episode", "state", "action", "next_state", "terminated"])
    for episode in range(200):
        state, is_over = env.reset(seed=episode)[0], False
        while not is_over:
            action = rng.choice(4, p=expert[state])
            after, _, terminated, truncated, info = env.step(action)
            writer.writerow([episode, state, action, after, terminated])
            state, is_over = after, terminated or truncated

log = tl.load_demonstrations("log.csv", lake)
print(f"{log}. The first begins:", *log[0].steps[:3], sep="\n  ")
learner = tl.HardLearner(lake, violation_allowance=0.05)
after_log = is_goal @ learner.respond(tl.Lesson.from_demonstrations(lake, log)).expectation.reward
instead = tl.teach(tl.AwareCmdpTeacher(lake, is_goal, learner), learner).final.response_reward
print(f"The learner reaches the goal {after_log:.2f} after the log, {instead:.2f} after a better lesson (discounted).")
assert instead > 1.3 * after_log

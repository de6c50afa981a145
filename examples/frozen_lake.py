"""FrozenLake, with a learner that fears holes.

Learn how a Gymnasium environment becomes a domain, and how to teach by episodes played in it. The learner imitates how
often each tile is stepped on, but accepts few falls. The quick way to the goal runs along the holes, so of a teacher
that shows the quickest it can follow little. One that knows the fear shows the best of the careful ways: that reaches
the goal half as often, but is followed, and gains more.
"""

import gymnasium
import numpy as np

import tutelage as tl

env = gymnasium.make("FrozenLake-v1", success_rate=0.8)
tiles = env.unwrapped.desc.ravel()
is_hole, is_goal = tiles == b"H", tiles == b"G"
lake = tl.from_gymnasium(env, discount=0.9, preference_features=np.eye(len(tiles)))
arrivals = lake.preference_features  # (C, 16), the chance of arriving on each tile
domain = tl.Domain(lake.mdp, arrivals[:, ~is_hole], arrivals @ is_hole, preference_names=["fall"])
true_weights = is_goal[~is_hole].astype(float)
learner = tl.HardLearner(domain, violation_allowance=0.05)

agnostic = tl.AgnosticTeacher(domain, true_weights)
aware = tl.AwareCmdpTeacher(domain, true_weights, learner)
rng, reached = np.random.default_rng(0), []
for name, teacher in (("agnostic", agnostic), ("aware", aware)):
    policy = teacher.open().lesson.policy
    states, actions = tl.record_demonstrations(env, domain.mdp, policy, 200, rng=rng, max_steps=100)
    episodes = tl.Demonstrations.from_sequences(domain.mdp, states, actions)
    response = learner.respond(tl.Lesson.from_demonstrations(domain, episodes))
    for who, mean in ((f"{name} teacher", tl.expectation(domain, policy)), ("its learner", response.expectation)):
        print(
            f"{who:>16}: reaches the goal {true_weights @ mean.reward:.3f}, falls {mean.preference[0]:.3f} (discounted)"
        )
    reached.append(true_weights @ response.expectation.reward)
    assert response.expectation.preference[0] < 0.05 + 1e-6
assert reached[1] > 1.5 * reached[0]

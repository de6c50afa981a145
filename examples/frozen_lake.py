"""FrozenLake, with a learner that avoids holes.

This example shows how a Gymnasium environment becomes a domain, and how to teach with recorded episodes. The learner
matches the number of visits to each tile, but accepts few falls. The shortest way to the goal runs along the holes, so
the learner cannot follow the agnostic teacher, which shows this way. The aware teacher shows the best policy with few
falls. This policy reaches the goal half as often, but the learner follows it and reaches the goal more often.
"""

import gymnasium
import numpy as np

import tutelage as tl

env = gymnasium.make("FrozenLake-v1", success_rate=0.8)
tiles = env.get_wrapper_attr("desc").ravel()
is_hole, is_goal = tiles == b"H", tiles == b"G"
lake = tl.from_gymnasium(env, discount=0.9, preference_features=np.eye(len(tiles)))
arrivals = lake.preference_features  # (C, 16), the probability of arriving on each tile
domain = tl.Domain(lake.mdp, arrivals[:, ~is_hole], arrivals @ is_hole, preference_names=["fall"])
true_weights = is_goal[~is_hole].astype(float)
learner = tl.HardLearner(domain, violation_allowance=0.05)

agnostic = tl.AgnosticTeacher(domain, true_weights)
aware = tl.AwareCmdpTeacher(domain, true_weights, learner)
rng, reached = np.random.default_rng(0), []
for name, teacher in (("agnostic", agnostic), ("aware", aware)):
    policy = teacher.open().lesson.policy
    assert policy is not None
    episodes = tl.record_demonstrations(env, domain.mdp, policy, 200, rng=rng, max_steps=100)
    response = learner.respond(tl.Lesson.from_demonstrations(domain, episodes))
    for who, mean in ((f"{name} teacher", tl.expectation(domain, policy)), ("its learner", response.expectation)):
        print(
            f"{who:>16}: reaches the goal {true_weights @ mean.reward:.3f}, falls {mean.preference[0]:.3f} (discounted)"
        )
    reached.append(true_weights @ response.expectation.reward)
    assert response.expectation.preference[0] < 0.05 + 1e-6
assert reached[1] > 1.5 * reached[0]

"""Learning from a careless demonstrator: FrozenLake, with a learner that fears holes.

The demonstrator wants to reach the goal, but three times in ten it does anything at all, and often falls in. The
learner is shown forty of its episodes, sampled by stepping the environment, and imitates them as far as its own
preference allows: at most half the demonstrator's falls.
"""

import gymnasium
import numpy as np

import tutelage as tl

env = gymnasium.make("FrozenLake-v1", is_slippery=True)
is_hole = np.array([[tile == b"H"] for tile in env.unwrapped.desc.ravel()], dtype=float)
domain = tl.from_gymnasium(env, discount=0.95, preference_features=is_hole, preference_names=["hole"])

best = tl.solve_hard(domain.mdp, domain.reward_features[:, 0])
careless = 0.7 * best.policy + 0.3 * tl.uniform_policy(domain.mdp)
states, actions = tl.record_demonstrations(env, domain.mdp, careless, 40, rng=np.random.default_rng(0), max_steps=500)
lesson = tl.Lesson.from_demonstrations(domain, tl.Demonstrations.from_sequences(domain.mdp, states, actions))
falls = tl.expectation(domain, careless).preference[0]

fearless = tl.StandardLearner(domain).respond(lesson)
match, mind = tl.Mismatch(norm=1, penalty=100.0), tl.Preference(allowance=falls / 2)
fearful = tl.GenericLearner(domain, match, mind).respond(lesson)

for name, response in (("fearless", fearless), ("fearful", fearful)):
    mean = response.expectation
    print(f"{name}: reaches the goal {mean.reward[0]:.3f}, falls {mean.preference[0]:.3f} (both discounted)")
print(fearful.explain())
assert fearful.expectation.preference[0] <= falls / 2 + 1e-6 < fearless.expectation.preference[0]

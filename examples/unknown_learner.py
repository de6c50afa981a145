"""A soft learner with unknown parameters: infer it from its responses, teach it, and test what behaviour avoids.

The teacher knows six features that the learner might avoid. It does not know which of them the learner avoids, how
strongly, how much of each it allows, or how strongly it wants to match a lesson. The responses tell.
"""

import numpy as np

import tutelage as tl

world = tl.object_world(size=6, seed=1)
domain = world.domain("L5")
# Two of the six preferences, up to half a discounted visit each. A preference that it does not have is never exceeded.
allowance = [0.5, 0.5, 1e6, 1e6, 1e6, 1e6]
learner = tl.SoftLearner(domain, mismatch_penalty=3, violation_penalty=4, violation_allowance=allowance)

teacher = tl.AdaptiveBilevelTeacher(domain, world.true_weights)
transcript = tl.teach(teacher, learner)
print(transcript)

estimate = tl.infer_learner(domain, transcript.rounds)
print(f"\nWhat the responses say about the learner:\n{estimate}")
assert 3 in estimate.mismatch_penalty and 4 in estimate.violation_penalty

known = tl.BilevelTeacher(domain, world.true_weights, learner).lesson_plan().achieved
reached = transcript.final.response_reward
print(f"\nA teacher that was told everything reaches {known:.3f}; this one {reached:.3f}.")
assert reached > 0.999 * known and transcript.final.bound >= known - 1e-6

# From behaviour alone, without lessons: which features does the learner avoid when it acts on its own?
walks = tl.sample_demonstrations(domain, transcript.rounds[0].response.policy, 300, rng=0)
weights = learner.respond(transcript.rounds[0].lesson).learned_weights[:3]
found = tl.infer_preferences(domain, walks, reward_weights=weights)
print(f"\nWhat it avoids, by {found}")
assert np.isfinite(found.p_value).all()

"""An MDP from arrays: a machine that wears out, and an operator that avoids breakdowns.

This example shows how an (S, A, S) array and its features become a domain, and why an optimal policy can be a poor
lesson. The operator matches the output and the cost of the lesson as closely as its limit on breakdowns allows. The
optimal policy lets the machine break. After this lesson the operator matches the output at a high cost. After the best
policy that it accepts, its reward is nearly that of the optimal policy.
"""

import numpy as np

import tutelage as tl

states, actions = ["new", "worn", "failing", "broken"], ["run", "service", "replace"]
transition = np.zeros((4, 3, 4))  # from a state, by an action, to a state
transition[:, 0] = np.array([[0.7, 0.3, 0, 0], [0, 0.7, 0.3, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 1]])
transition[:, 1] = np.array([[1, 0, 0, 0], [0.8, 0.2, 0, 0], [0, 0.8, 0.2, 0], [0, 0, 0, 1]])  # repairs one stage
transition[:, 2] = [1, 0, 0, 0]
mdp = tl.MDP.from_arrays(transition, initial=[1, 0, 0, 0], discount=0.95)

output_and_cost = np.tile([[1, 0], [0, 0.5], [0, 2]], (4, 1))  # one row per choice: by state, then by action
output_and_cost[9, 0] = 0  # a broken machine has no output
domain = tl.Domain(mdp, output_and_cost, [0, 0, 0, 1], ["output", "cost"], ["broken"])  # or one row per state
true_weights = [1, -2]

operator = tl.HardLearner(domain, violation_allowance=0.2)
teachers = (tl.AgnosticTeacher(domain, true_weights), tl.AwareCmdpTeacher(domain, true_weights, operator))
agnostic, aware = (tl.teach(teacher, operator).final for teacher in teachers)
for name, taught in (("agnostic", agnostic), ("aware", aware)):
    shown, earned = taught.lesson_reward, taught.response_reward
    print(f"The {name} teacher shows a policy with reward {shown:.2f}; the operator's reward is {earned:.2f}:")
    for state, chances in zip(states, taught.response.policy.reshape(4, 3), strict=True):
        print(f"  {state}: " + ", ".join(f"{a} {p:.0%}" for a, p in zip(actions, chances, strict=True) if p > 0.005))
assert 1.2 * agnostic.response_reward < aware.response_reward
assert 0.98 * agnostic.lesson_reward < aware.response_reward

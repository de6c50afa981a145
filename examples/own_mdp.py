"""An MDP of your own, from arrays: a machine that wears out, and an operator who minds breakdowns.

Learn how an (S, A, S) array and its features become a domain, and why an optimal policy can be a poor lesson. The
operator copies the output and the cost it is shown as nearly as it can with hardly any breakdowns. Shown the policy
that earns most, which lets the machine break, it keeps the output up at any cost; shown the best policy it accepts, it
earns nearly as much as that.
"""

import numpy as np

import tutelage as tl

states, actions = ["new", "worn", "failing", "broken"], ["run", "service", "replace"]
transition = np.zeros((4, 3, 4))  # from a state, by an action, to a state
transition[:, 0] = [[0.7, 0.3, 0, 0], [0, 0.7, 0.3, 0], [0, 0, 0.5, 0.5], [0, 0, 0, 1]]
transition[:, 1] = [[1, 0, 0, 0], [0.8, 0.2, 0, 0], [0, 0.8, 0.2, 0], [0, 0, 0, 1]]  # mends one stage of wear
transition[:, 2] = [1, 0, 0, 0]
mdp = tl.MDP.from_arrays(transition, initial=[1, 0, 0, 0], discount=0.95)

output_and_cost = np.tile([[1, 0], [0, 0.5], [0, 2]], (4, 1))  # a row for each choice: by state, then by action
output_and_cost[9, 0] = 0  # a broken machine runs, but makes nothing
names = {"reward_names": ["output", "cost"], "preference_names": ["broken"]}
domain = tl.Domain(mdp, output_and_cost, [0, 0, 0, 1], **names)  # or a row for each state
true_weights = [1, -2]

operator = tl.HardLearner(domain, violation_allowance=0.2)
teachers = (tl.AgnosticTeacher(domain, true_weights), tl.AwareCmdpTeacher(domain, true_weights, operator))
agnostic, aware = (tl.teach(teacher, operator).final for teacher in teachers)
for name, taught in (("agnostic", agnostic), ("aware", aware)):
    shown, earned = taught.lesson_reward, taught.response_reward
    print(f"The {name} teacher shows a policy that earns {shown:.2f}; the operator earns {earned:.2f}:")
    for state, chances in zip(states, taught.response.policy.reshape(4, 3), strict=True):
        print(f"  {state}: " + ", ".join(f"{a} {p:.0%}" for a, p in zip(actions, chances, strict=True) if p > 0.005))
assert 1.2 * agnostic.response_reward < aware.response_reward
assert 0.98 * agnostic.lesson_reward < aware.response_reward

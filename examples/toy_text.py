"""CliffWalking, FrozenLake and Taxi, with reward features and a preference on actions.

This example shows how functions of a state and an action become features. The learner matches how often each reward is
paid, and where the agent is or what it does, but takes some actions rarely. Shown an optimal policy, it earns little,
because it cannot follow. Shown the best policy that it accepts, it follows.
"""

from typing import Any

import gymnasium

import tutelage as tl

taxi = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
disliked = {
    "CliffWalking-v1": lambda state, action: {"along the cliff": state // 12 == 2 and action in (1, 3)},
    "FrozenLake-v1": lambda state, action: {"down": action == 1},
    taxi: lambda state, action: {"along the middle row": state // 100 == 2 and action in (2, 3)},
}
for name, matched, n, paid, limit in (
    ("CliffWalking-v1", lambda state, action: state // 12, 4, (-1, -100), 0.5),  # the row of the agent
    ("FrozenLake-v1", lambda state, action: state // 4, 4, (1,), 0.5),
    (taxi, lambda state, action: action, 6, (20, -1, -10), 0.3),  # the action of the driver
):
    env: Any = gymnasium.make(name)

    def features(
        state: int, action: int, env: Any = env, paid: Any = paid, matched: Any = matched, n: int = n
    ) -> dict[str, float]:
        outcomes = env.unwrapped.P[state][action]
        payments = {f"paid {amount}": sum(p for p, _, reward, _ in outcomes if reward == amount) for amount in paid}
        return payments | {f"matched {i}": matched(state, action) == i for i in range(n)}

    domain = tl.from_gymnasium(env, discount=0.95, reward_features=features, preference_features=disliked[name])
    true_weights = [*paid, *[0] * n]
    learner = tl.HardLearner(domain, violation_allowance=limit)
    teachers = tl.AgnosticTeacher(domain, true_weights), tl.AwareCmdpTeacher(domain, true_weights, learner)
    agnostic, aware = (tl.teach(teacher, learner).final.response_reward for teacher in teachers)
    print(f"{name}: the learner earns {agnostic:.2f} after an optimal policy, {aware:.2f} after an accepted one")
    assert aware > agnostic + 0.05

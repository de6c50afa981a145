"""One policy: its Markov chain, its linear systems, its visits, expectations and arrival.

A new way to solve the systems of a policy is a new method of the one resolvent.
"""

# The relative accuracy of values and visits that take iterations.
RELATIVE_ACCURACY = 1e-11

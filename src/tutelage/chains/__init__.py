"""One policy: its Markov chain, its linear systems (one resolvent), its visits, expectations and arrival."""

# The relative accuracy of values and visits that take iterations.
RELATIVE_ACCURACY = 1e-11

"""One policy: its Markov chain, its linear systems, its visits, expectations and arrival.

A new way to solve the systems of a policy is a new method of the one resolvent.
"""

"""The model: what both sides know. An MDP, a domain with its features, names, allowances and policies.

Nothing here solves anything. A new kind of feature, name or allowance belongs here.
"""

"""The model: what both sides know. An MDP, a domain with its features, names, allowances and policies."""

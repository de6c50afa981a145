"""One reward: the Bellman equations, hard and soft, their solutions and expansions, with their compiled loops."""

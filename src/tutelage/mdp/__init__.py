"""Finite Markov decision processes as choices: the model, its policies, what they visit, and what they show."""

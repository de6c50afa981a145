"""Learners: every model of the paper, each one convex program, each answer with its certificate."""

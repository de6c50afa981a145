"""Learners: each model of the paper is a convex program, and each response carries a certificate."""

"""Solvers that certify their answers: Bellman equations, linear and quadratic programs, and sets of expectations."""

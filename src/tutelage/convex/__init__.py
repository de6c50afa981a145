"""Small convex programs: linear, quadratic and cone programs, proximal Newton, least squares, local ascent.

Nothing here knows what an MDP is. The doors to the libraries of programs are here.
"""

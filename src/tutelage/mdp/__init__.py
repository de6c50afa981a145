"""Finite Markov decision processes in choice form: the model, policies, expectations, demonstrations and files."""

"""What answers and behaviour tell: a learner's parameters from its answers, preferences from recordings."""

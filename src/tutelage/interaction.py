"""The rounds between any teacher and any learner (Algorithm 1): knows roles, not players."""

"""Benchmarks: times of Tutelage as ratios to the times of other software. Every timed answer is checked."""

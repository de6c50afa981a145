"""Benchmarks: our times as ratios to those of what users would pick instead, every answer checked."""

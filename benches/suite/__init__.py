"""Benches of the benchmark suite itself: beside perftest, and run against run."""

"""Benchmarks of the benchmark suite itself: compared with perftest, and between runs."""

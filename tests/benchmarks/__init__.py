"""Benchmarks: each measures a ratio to a peer, interleaved in one process. No test asserts a time."""

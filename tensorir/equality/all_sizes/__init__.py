"""Proofs that programs are equal for all sizes: an element of their results, at symbolic coordinates."""

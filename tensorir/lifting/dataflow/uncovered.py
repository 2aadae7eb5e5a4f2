"""What exact dataflow does not cover."""

__all__ = ["Uncovered"]


class Uncovered(Exception):
    """What this way of lifting does not cover yet; the text says what it is."""

"""Schedules of loops: all at once, as a fold, as a scan, or step by step; and the report of them."""

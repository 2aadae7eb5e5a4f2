"""Schedules of a region's loops, by its dataflow alone: at once, as a fold, or as a scan."""

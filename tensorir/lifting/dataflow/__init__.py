"""Exact value-based dataflow of regions: for each read the write that its value comes from."""

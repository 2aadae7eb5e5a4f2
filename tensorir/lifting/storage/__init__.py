"""Storage of the source's own, undone: what only hands on, shares memory, or is laid out flat."""

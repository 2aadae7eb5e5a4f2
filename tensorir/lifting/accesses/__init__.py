"""Accesses: exact sets of elements and iterations, boxes, overlaps, inverses, dependences."""

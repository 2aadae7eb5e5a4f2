"""Which elements and iterations: exact sets, boxes of iterations, overlaps, inverses, dependences."""

"""Relax, the graph language around TIR: nodes, operators with their shapes, reading and printing."""

"""Reader, compute and writer programs of a core, and the circular buffers between them: printed, checked, simulated."""

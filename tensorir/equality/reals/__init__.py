"""Programs over the real numbers: formulas at random points of prime fields, with witnesses that decide branches."""

"""True if programs compute the same: levels of equality, counterexamples, and what each rests on."""

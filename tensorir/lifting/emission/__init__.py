"""From terms to tensors: boxes of iterations as dims, stores and folds as one expression each."""

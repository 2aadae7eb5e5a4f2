"""How the loops of a region run, decided by its dataflow alone: at once, as a fold, or as a scan."""

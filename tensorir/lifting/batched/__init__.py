"""Regions whose values are tensors, all iterations of independent loops at once.

Each value gets the dims of the loops around it in front of its own, so that an operation on tiles is one operation on
tensors: a read is a split and a rename of its buffer, or a gather; a write is the dual. Loops that fold become folds,
a sum of contractions one contraction; all others carry their state step by step, for all blocks together.
"""

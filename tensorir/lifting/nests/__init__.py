"""What a wing writes: loops around stores of scalar terms, with whole-number terms in normal form."""

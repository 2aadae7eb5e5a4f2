"""Loop nests of the wings: loops around stores of scalar terms, with whole-number terms in normal form."""

"""The tensor program as a person would write it: names, order, padding, folds of folds."""

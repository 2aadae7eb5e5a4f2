"""What is wrong, said before anything runs: bounds, races, barriers, unseen indices."""

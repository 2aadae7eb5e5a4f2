"""The driver imports icon4py, which is no part of the test environment."""

collect_ignore = ["driver.py"]

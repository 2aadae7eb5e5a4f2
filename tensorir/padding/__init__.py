"""Programs for all sizes up to a bound: intervals at the bound, and where they really end is data."""

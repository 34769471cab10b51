"""A soak test: ten minutes of load and kills, then a count of what is left."""

"""The pages for people: files that use the public API, and nothing else."""

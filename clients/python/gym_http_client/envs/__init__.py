"""Remote environments that behave like local ones, and what they are made of."""

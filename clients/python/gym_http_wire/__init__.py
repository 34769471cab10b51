"""What server and Python client share: frames, values and spaces as data."""

"""The codec of server and Python client: frames, messages, values and spaces."""

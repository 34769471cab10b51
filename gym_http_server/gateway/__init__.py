"""The gateway: the process where far sides and agents come in by ZeroMQ."""

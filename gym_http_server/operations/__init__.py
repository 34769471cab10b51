"""The operations of the server: what each takes, who may use it, and its effects."""

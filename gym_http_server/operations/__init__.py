"""Declares what each operation takes, who may use it, and its effects."""

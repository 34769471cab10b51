"""Errors of the stand-in."""


class ToolError(Exception):
    """What an assistant is told."""

"""Checks by topic: each module defines one group of checks or several."""

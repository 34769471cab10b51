"""Shows an instance to watchers: its newest state as short text and picture.

`pacing` decides when, without I/O; `pictures` makes the picture; `updates` the text;
`showing` sends both.
"""

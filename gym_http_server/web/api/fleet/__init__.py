"""The routes of a node: what it answers itself, and what with the other nodes."""

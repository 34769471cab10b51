"""The nodes of a fleet, as a web worker knows and calls them."""

"""The fleet: several servers that clients use as one.

A server of a fleet is a node. Each has a number, which is in the IDs of its instances,
and a record in the store, by which the others reach it.
"""

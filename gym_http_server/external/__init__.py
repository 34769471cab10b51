"""Connections of external environments: the protocol that broker and hosts share."""

"""Compares this server's speed with gym-http-api's and others'."""

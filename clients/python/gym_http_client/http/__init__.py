"""Requests over HTTP: transports, retries, and errors of answers."""

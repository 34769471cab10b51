"""The code of a host: the process that holds one instance."""

"""Inside a host: the process that holds one instance."""

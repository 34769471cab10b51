"""The command line: a server is started, used and looked at."""

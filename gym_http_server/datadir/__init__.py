"""The data directory: recordings, ended instances, their owners, and thumbnails."""

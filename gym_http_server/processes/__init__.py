"""What processes of the server are made of: sockets, polling, frames."""

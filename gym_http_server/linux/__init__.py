"""What the server asks of Linux: process attributes, and the sandbox of hosts."""

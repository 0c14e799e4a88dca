"""What travels between clients and server."""

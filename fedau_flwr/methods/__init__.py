"""One file per method: the client's half and the server's half."""

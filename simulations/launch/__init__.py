"""SuperLinks, SuperNodes and runs as processes of this machine."""

"""What runs in a ServerApp."""

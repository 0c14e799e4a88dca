"""What runs on a SuperNode."""

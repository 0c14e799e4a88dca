"""What helps to test an app or another implementation."""

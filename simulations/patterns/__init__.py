"""The participation patterns of the command line."""

"""The command line of the suite."""

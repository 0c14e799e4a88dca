"""The methods of the command line."""

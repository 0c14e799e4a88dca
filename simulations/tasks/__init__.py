"""Data sets with their models."""

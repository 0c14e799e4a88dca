"""Data sets of the experiments: what they are, how they are made, and how they are split."""

"""What comes out of runs: tables, pictures, the paper's studies and its grid search."""

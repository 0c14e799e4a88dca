"""A training step of the paper's networks in C++: an accelerator, never a requirement."""

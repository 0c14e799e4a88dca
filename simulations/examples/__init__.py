"""Apps of four frameworks with FedAU in them, each on a tiny model; README.md has the diffs."""

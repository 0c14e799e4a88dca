"""A Flower app of its own; see `flower_alone.flower_alone`."""

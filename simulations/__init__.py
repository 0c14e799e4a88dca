"""The experiments of the FedAU paper as a Flower app."""

"""FedAU for Flower: unbiased federated averaging when clients come and go."""

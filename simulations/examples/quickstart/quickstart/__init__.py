"""Ten clients with ten wishes: what FedAU does when some come rarely."""

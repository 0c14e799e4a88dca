"""What tasks on images share: array files, the paper's networks, normalisation, random changes."""

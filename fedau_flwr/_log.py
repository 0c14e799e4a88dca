"""The logger of this package, below Flower's own."""

import logging

log = logging.getLogger("flwr.fedau")

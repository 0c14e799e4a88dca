"""The logger of this package, below Flower's own."""

import logging


class _OneLineEach(logging.Filter):
    """Escapes control characters, so that no client can forge a line or clear a terminal."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if not (plain := text.replace("\t", " ")).isprintable():
            shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain)
            record.msg, record.args = "".join(shown), ()
        return True


log = logging.getLogger("flwr.fedau")
log.addFilter(_OneLineEach())

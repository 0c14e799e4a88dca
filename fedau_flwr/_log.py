"""The logger of this package, below Flower's own."""

import logging

log = logging.getLogger("flwr.fedau")


class _Escaped(logging.Filter):
    """Shows control characters as what they are: others choose some of the words in our lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if not (plain := text.replace("\t", " ")).isprintable():
            record.msg = "".join(c if c.isprintable() else repr(c)[1:-1] for c in plain)
            record.args = ()
        return True


log.addFilter(_Escaped())

"""The logger of this package, below Flower's own."""

import logging

log = logging.getLogger("flwr.fedau")


class _Escaped(logging.Filter):
    """Shows control characters as what they are: others choose some of the words in our lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if not text.isprintable():
            # Tabs are how Flower's summaries are laid out.
            shown = (c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)
            record.msg = "".join(shown)
            record.args = ()
        return True


log.addFilter(_Escaped())

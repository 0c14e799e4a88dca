"""What goes wrong in a secure round, in words that hold no secret."""


class RefusalError(ValueError):
    """One message is refused; the text is the reason and is fit for a log or an error reply."""


class VoidRoundError(RuntimeError):
    """Too few clients are left to remove the masks: the round yields no sum at all."""

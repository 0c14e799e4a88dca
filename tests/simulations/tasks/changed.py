"""Tasks of this suite with other numbers of samples, or without random changes."""

from simulations.tasks import Task


def changed(kind: type[Task], **attributes: object) -> Task:
    """Return a task like one of ours but for some attributes."""
    own = {"name": kind.name, "title": kind.title}
    return type(kind.__name__, (kind,), own | attributes)()

"""What tasks on images share: array files, the paper's networks, normalisation, random changes."""

from simulations.tasks.images.task import (
    IMAGE_SHAPE,
    OBJECTS,
    Augmentation,
    Images,
    ImageTask,
    Labels,
    ModelLayout,
    part_files,
)

__all__ = [
    "IMAGE_SHAPE",
    "OBJECTS",
    "Augmentation",
    "ImageTask",
    "Images",
    "Labels",
    "ModelLayout",
    "part_files",
]

"""Normalisation and random changes of training images, on whole batches of tensors.

Crops and flips come after normalisation, so that what is padded is zero there; CIFAR-100's changes
of sharpness and colour come before it, on bytes. All draws come from one generator, on its device.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import torch
from torch import Generator, Tensor
from torch.nn import functional

from simulations.tasks.images.task import IMAGE_SHAPE, Augmentation, ImageTask


@lru_cache(maxsize=4)
def _scale_and_shift(
    task: ImageTask, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    # Training uses them too, whose tensors are not those of an inference.
    with torch.inference_mode(False):
        mean, std = torch.tensor([task.mean, task.std], dtype=torch.float64)
        # A line of pixels at a time: broadcasting over three channels alone is four times slower.
        lines = (values.repeat(IMAGE_SHAPE[1]) for values in (1 / (255 * std), -mean / std))
        scale, shift = (line.to(device, dtype) for line in lines)
        return scale, shift


def normalised(images: Tensor, task: ImageTask) -> Tensor:
    """Map bytes ``[n, 32, 32, 3]`` to ``(pixel / 255 - mean) / std``, ``[n, 3, 32, 32]``.

    The result is in ``channels_last`` layout, which is that of the bytes.
    """
    dtype = torch.get_default_dtype()
    scale, shift = _scale_and_shift(task, images.device, dtype)
    lines = images.to(dtype).reshape(-1, len(scale))
    return lines.mul_(scale).add_(shift).view(images.shape).permute(0, 3, 1, 2)


def augment(images: Tensor, task: ImageTask, rng: Generator, *, share: int = 1) -> Tensor:
    """Return normalised, randomly changed images ``[n, 3, 32, 32]`` of bytes ``[n, 32, 32, 3]``.

    ``share`` consecutive images share one crop and flip: 1 draws per image.
    """
    recipe = task.augmentation
    if recipe.colour:
        images = _change_colours(images.permute(0, 3, 1, 2), rng).permute(0, 2, 3, 1)
    batch, changed = normalised(images, task), recipe.crop_padding or recipe.flip
    return _crop_and_flip(batch, recipe, share, rng) if changed else batch


def _draws(n: int, share: int, rng: Generator, device: torch.device) -> Tensor:
    """Return n numbers uniform in [0, 1), the same one for ``share`` in a row."""
    groups = -(-n // share)
    drawn = torch.rand(groups, generator=rng, device=rng.device)
    return drawn.repeat_interleave(share)[:n].to(device)


def _crop_and_flip(batch: Tensor, recipe: Augmentation, share: int, rng: Generator) -> Tensor:
    """Cut a window of the images' own size out of each zero-padded image; mirror half of them.

    Both are one selection of pixels, which is faster than a flip of all images and a choice.
    """
    n, channels, height, width = batch.shape
    device, padding = batch.device, recipe.crop_padding
    down, right = ((_draws(n, share, rng, device) * (2 * padding + 1)).long() for _ in range(2))
    columns = torch.arange(width, device=device).expand(n, width)
    if recipe.flip:
        mirrored = _draws(n, share, rng, device) < 0.5
        columns = torch.where(mirrored[:, None], width - 1 - columns, columns)
    columns = columns + right[:, None]
    rows = down[:, None] + torch.arange(height, device=device)
    rows += torch.arange(n, device=device)[:, None] * (height + 2 * padding)
    chosen = (rows * (width + 2 * padding))[:, :, None] + columns[:, None, :]
    padded = functional.pad(batch.permute(0, 2, 3, 1), (0, 0, *(padding,) * 4))
    pixels = padded.reshape(-1, channels).index_select(0, chosen.view(-1))
    return pixels.view(n, height, width, channels).permute(0, 3, 1, 2)


def _change_colours(images: Tensor, rng: Generator) -> Tensor:
    """Apply CIFAR-100's sharpness, colour jitter, posterize and equalize, drawn per image."""
    from simulations.tasks.images.vision import transforms  # noqa: PLC0415 -- slow, only CIFAR-100 needs it

    draw = partial(_draws, len(images), 1, rng, images.device)

    def apply_to(chosen: Tensor, change: Callable[..., Tensor], *options: float) -> None:
        if chosen.any():
            images[chosen] = change(images[chosen], *options)

    images = images.clone(memory_format=torch.contiguous_format)
    apply_to(draw() < 0.5, transforms.adjust_sharpness, 2.0)
    # Brightness and hue come in random order, as in torchvision's own colour jitter.
    brightness = 1 + 0.05 * (2 * draw() - 1)
    hue = 0.05 * (2 * draw() - 1)
    first = draw() < 0.5
    images = adjust_brightness(images, torch.where(first, brightness, 1.0))
    images = adjust_hue(images, hue)
    images = adjust_brightness(images, torch.where(first, 1.0, brightness))
    apply_to(draw() < 0.5, transforms.posterize, 2)
    apply_to(draw() < 0.5, transforms.equalize)
    return images


def adjust_brightness(images: Tensor, factors: Tensor) -> Tensor:
    """Multiply each image of bytes by its own factor (torchvision's takes one for all)."""
    return images.mul(factors.view(-1, 1, 1, 1)).clamp_(0, 255).to(torch.uint8)


def adjust_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Turn each image's hues by its own fraction of the circle (torchvision's takes one for all).

    With value v and chroma d = v - min, channel k of the result is
    ``v - d·max(0, min(m, 4 - m, 1))``, ``m = (k + 6·hue) mod 6``, k = 5, 3, 1 for R, G, B.
    """
    pixels = images.float().div_(255)
    value, brightest = pixels.max(1, keepdim=True)
    chroma = value - pixels.amin(1, keepdim=True)
    # Hue in sixths of the circle: 2·brightest + (next channel - the one after) / chroma.
    ahead = pixels.gather(1, (brightest + 1) % 3) - pixels.gather(1, (brightest + 2) % 3)
    hue = 2 * brightest + ahead / torch.where(chroma > 0, chroma, 1.0)
    hue += 6 * turns.view(-1, 1, 1, 1)
    m = (torch.tensor([5.0, 3.0, 1.0], device=images.device).view(1, 3, 1, 1) + hue) % 6
    turned = value - chroma * torch.minimum(m, 4 - m).clamp_(0, 1)
    return turned.mul_(255 + 1 - 1e-3).to(torch.uint8)  # torchvision's rounding to bytes

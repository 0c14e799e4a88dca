import pytest
import torch

from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.cifar100 import CIFAR100
from simulations.tasks.images import augmentation
from simulations.tasks.images.augmentation import adjust_brightness, adjust_hue, augment
from simulations.tasks.images.task import Augmentation
from simulations.tasks.svhn import SVHN
from simulations.tasks.synthetic import Synthetic
from tests.simulations.tasks.changed import changed


def images(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=generator)


def stored(batch):
    """Return images as the array files have them, channels last."""
    return batch.permute(0, 2, 3, 1).contiguous()


def normalised(spec, batch):
    return augmentation.normalised(stored(batch), spec)


def run(spec, batch, seed=0, share=1):
    generator = torch.Generator().manual_seed(seed)
    return augment(stored(batch), spec, generator, share=share)


def crops(image, padding=4):
    """Return all crops of a normalised image by offset."""
    padded = torch.nn.functional.pad(image, (padding,) * 4)
    return {
        (y, x): padded[:, y : y + 32, x : x + 32]
        for y in range(2 * padding + 1)
        for x in range(2 * padding + 1)
    }


def found(changed, image):
    """Return (offset, flipped) of a changed image."""
    hits = [
        (offset, flipped)
        for offset, crop in crops(image).items()
        for flipped, candidate in ((False, crop), (True, crop.flip(-1)))
        if torch.equal(changed, candidate)
    ]
    assert len(hits) == 1
    return hits[0]


def test_normalisation():
    batch = images(5)
    mean = torch.tensor(SVHN.mean).view(1, 3, 1, 1)
    std = torch.tensor(SVHN.std).view(1, 3, 1, 1)
    expected = (batch.float() / 255 - mean) / std
    torch.testing.assert_close(normalised(SVHN(), batch), expected, rtol=1e-5, atol=1e-6)


def test_every_image_gets_a_crop_and_flip_of_its_own():
    batch = images(60)
    normal = normalised(CIFAR10(), batch)
    changes = [found(a, b) for a, b in zip(run(CIFAR10(), batch), normal, strict=True)]
    rows, columns = {y for (y, _), _ in changes}, {x for (_, x), _ in changes}
    assert rows == columns == set(range(9))
    assert 15 < sum(flipped for _, flipped in changes) < 45


def test_svhn_is_cropped_but_never_flipped():
    batch = images(30)
    normal = normalised(SVHN(), batch)
    assert not any(found(a, b)[1] for a, b in zip(run(SVHN(), batch), normal, strict=True))


def test_per_batch_shares_one_crop_and_flip_within_each_batch():
    batch = images(64)
    normal = normalised(CIFAR10(), batch)
    out = run(CIFAR10(), batch, share=16)
    changes = [found(a, b) for a, b in zip(out, normal, strict=True)]
    groups = [set(changes[k : k + 16]) for k in range(0, 64, 16)]
    assert [len(group) for group in groups] == [1, 1, 1, 1]
    assert len(set.union(*groups)) > 1


@pytest.mark.parametrize("spec", [SVHN, CIFAR10, CIFAR100], ids=lambda spec: spec.name)
def test_the_generator_decides_and_the_input_stays(spec):
    batch = stored(images(20))
    before = batch.clone()
    first, again, other = (
        augment(batch, spec, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(batch, before)
    assert first.is_contiguous(memory_format=torch.channels_last)


def test_the_synthetic_set_is_only_normalised():
    batch = images(4)
    assert torch.equal(run(Synthetic(), batch), normalised(Synthetic(), batch))


def test_brightness_and_hue_per_image_are_torchvisions():
    # Slow to import, so not by all who only collect this test.
    from simulations.tasks.images.vision import transforms

    batch = images(20)
    batch[0] = 77  # grey has no hue
    factors = torch.linspace(0.95, 1.05, 20)
    turns = torch.linspace(-0.05, 0.05, 20)
    brighter, turned = adjust_brightness(batch, factors), adjust_hue(batch, turns)
    for k in range(20):
        expected = transforms.adjust_brightness(batch[k], float(factors[k]))
        assert torch.equal(brighter[k], expected)
        expected = transforms.adjust_hue(batch[k], float(turns[k]))
        assert (turned[k].int() - expected.int()).abs().max() <= 1
        assert (turned[k] != expected).float().mean() < 0.01


def test_cifar100_changes_images_on_bytes_each_with_probability_one_half():
    spec = changed(CIFAR100, augmentation=Augmentation(colour=True))
    # Low contrast: equalize alone can stretch it, posterize alone leaves at most four levels.
    batch = images(400) // 4 + 80
    out = run(spec, batch)
    mean = torch.tensor(spec.mean).view(1, 3, 1, 1)
    std = torch.tensor(spec.std).view(1, 3, 1, 1)
    pixels = ((out * std + mean) * 255).round()
    torch.testing.assert_close(pixels, (out * std + mean) * 255, rtol=0, atol=1e-3)
    levels = torch.tensor([len(torch.unique(image)) for image in pixels])
    spread = pixels.amax((1, 2, 3)) - pixels.amin((1, 2, 3))
    assert 160 < (levels <= 12).sum() < 240
    assert 160 < (spread > 200).sum() < 240

import subprocess
import sys


def test_torchvision_imports_without_a_warning_whatever_torch_it_was_built_for():
    program = (
        "from simulations.tasks.images.vision import datasets, transforms; import torch; "
        "print(datasets.SVHN.__name__, transforms.equalize.__name__, "
        "hasattr(torch.ops.torchvision, 'nms'))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["SVHN", "equalize", "True"], done.stderr

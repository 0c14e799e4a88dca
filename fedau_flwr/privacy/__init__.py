"""Differential privacy for sums: clip what a client contributes, and add noise to the sum."""

from .budget import PrivacyBudget
from .clipping import AdaptiveNorm, clip, l2_norm
from .gaussian import GaussianPrivacy
from .matrix import MatrixPrivacy
from .noise import add_noise, share_std, sum_std

__all__ = [
    "AdaptiveNorm",
    "GaussianPrivacy",
    "MatrixPrivacy",
    "PrivacyBudget",
    "add_noise",
    "clip",
    "l2_norm",
    "share_std",
    "sum_std",
]

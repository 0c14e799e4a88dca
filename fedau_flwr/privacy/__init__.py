"""Differential privacy for sums: clip what a client contributes, and add noise to the sum."""

from .budget import PrivacyBudget
from .clipping import AdaptiveNorm, clip, l2_norm
from .gaussian import GaussianPrivacy
from .noise import add_noise, share_std, sum_std

__all__ = [
    "AdaptiveNorm",
    "GaussianPrivacy",
    "PrivacyBudget",
    "add_noise",
    "clip",
    "l2_norm",
    "share_std",
    "sum_std",
]

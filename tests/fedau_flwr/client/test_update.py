"""What of an update is sent."""

import numpy as np
import pytest

from fedau_flwr.client.update import check_finite
from fedau_flwr.wire.requests import Refusal


@pytest.mark.parametrize(("value", "fine"), [(3e38, True), (np.inf, False), (np.nan, False)])
def test_only_what_is_finite_is_sent_however_large(value, fine):
    parts = {"update": {"x": np.array([1.0, value], np.float32)}}
    if fine:
        check_finite(parts)
        return
    with pytest.raises(Refusal, match=r"^The update of array 'x' is not finite"):
        check_finite(parts)

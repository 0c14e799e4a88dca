from fedau_flwr._log import log


def test_no_reason_of_a_client_forges_a_line(caplog):
    reason = "no\r\nRound 7: 4 counted \x1b[2J\x00 \u202e \udc80 but ε = 3 µm stays"
    log.warning("Rejected the reply of node %d: %s.", 3, reason)
    assert caplog.messages == [
        "Rejected the reply of node 3: no\\r\\nRound 7: 4 counted \\x1b[2J\\x00 \\u202e \\udc80 "
        "but ε = 3 µm stays."
    ]

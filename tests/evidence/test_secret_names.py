"""Variables as they may be shown or compared: without what their names announce (R-EVI-5)."""

from __future__ import annotations

from kandev_routing_sdk.evidence.secret_names import without_secrets


def test_only_texts_under_a_secrets_name_are_left_out() -> None:
    reference = {"secret": "env:API_KEY"}
    env = {"API_KEY": "zq", "MODE": "fast", "OTHER_API_KEY": reference}
    assert {"API_KEY": None, "MODE": "fast", "OTHER_API_KEY": reference} == without_secrets(env)
    assert "zq" == env["API_KEY"], "what was given is as it was"

"""What is taken out of everything that an agent says (R-EVI-5)."""

from __future__ import annotations

import pytest

from kandev_routing_sdk.conductor.known_secrets import known_secrets
from kandev_routing_sdk.profiles import ConcreteProfile


def profile(**fields: object) -> ConcreteProfile:
    return ConcreteProfile.model_validate({"id": "fable", "family": "scripted", "name": "Fable", **fields})


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("FOO", "zq-Canary-7Kd", "zq-Canary-7Kd"),
        ("MYSQL_PWD", "hunterzq", "hunterzq"),
        ("SSHPASS", "opensezq", "opensezq"),
        ("PIN_CODE", "9081726", "9081726"),
        ("HOOK", "https://hooks.example.com/services/T0AB/zqCanary7Kd99", "zqCanary7Kd99"),
        ("HOOK", "https://hooks.example.com/services/T0AB", "https://hooks.example.com/services/T0AB"),
        ("DB", "postgres://u:zqCanary@h/db", "zqCanary"),
        ("SIGNED", "https://h.example/x?sig=zqCanary&b=1", "zqCanary"),
        ("PAIR", '{"a": [{"b": "zq-Canary-7Kd"}]}', "zq-Canary-7Kd"),
        ("LINES", "first-line-7Kd\nsecond-line-8Le", "second-line-8Le"),
        ("X_HEADERS", "Authorization: Bearer zqCanary\nX-Other: zqSecond", "zqSecond"),
    ],
)
def test_a_literal_is_known_whole_and_in_the_part_that_is_the_secret(name: str, value: str, secret: str) -> None:
    assert {value, secret} <= known_secrets(profile(), {}, {name: value}, ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LANG", "C.UTF-8"),
        ("ANTHROPIC_BASE_URL", "https://gateway.example.com/anthropic/v1"),
        ("BYPASS", "enabled"),
        ("SOME_MODE", "careful"),
        ("DATA", "/srv/data/one"),
    ],
)
def test_what_plainly_is_none_is_left_to_be_read(name: str, value: str) -> None:
    assert set() == known_secrets(profile(), {}, {name: value}, ())


def test_an_inherited_address_gives_its_password_away_to_nobody() -> None:
    proxy = {"HTTPS_PROXY": "http://user:zqCanary@proxy:8080", "PATH": "/usr/bin", "SSH_AUTH_SOCK": "/tmp/agent.1"}
    assert {"zqCanary"} == known_secrets(profile(), proxy, {}, ())


def test_what_git_is_told_by_variables_may_be_a_login() -> None:
    """As build servers do it."""
    login = {"GIT_CONFIG_KEY_0": "http.extraheader", "GIT_CONFIG_VALUE_0": "AUTHORIZATION: basic zqCanary"}
    assert "zqCanary" in known_secrets(profile(), login, {}, ())


def test_arguments_are_known_by_their_flags_and_their_looks() -> None:
    args = [
        "--api-key",
        "zqFirst",
        "--auth-token=zqSecond",
        "-H",
        "X-Auth: zqThird7",
        "token=zqFourth7Kd",
        "--model",
        "m-20251101-x",
    ]
    expected = {"zqFirst", "zqSecond", "X-Auth: zqThird7", "zqThird7", "token=zqFourth7Kd", "zqFourth7Kd"}
    assert expected == known_secrets(profile(args=args), {}, {}, ())

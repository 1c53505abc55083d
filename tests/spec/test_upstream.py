"""A custom base URL is a service of its own (R-CIR-1), named without anything that may be secret."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_routing_sdk.spec import Upstream, upstream_of

SECRET = "a1B2c3D4e5F6g7H8"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://api.example.com", "api.example.com"),
        ("https://api.example.com/", "api.example.com"),
        (" https://API.Example.com. ", "api.example.com"),
        ("https://api.example.com:443/v1", "api.example.com"),
        ("http://api.example.com:443", "api.example.com:443"),
        ("http://api.example.com:80", "api.example.com"),
        ("http://127.0.0.1:8080/v1/", "127.0.0.1:8080"),
        ("http://[::1]:8080", "[::1]:8080"),
        ("https://gateway.example.com/team-a/openai/v1", "gateway.example.com/team-a/openai"),
        ("https://gateway.example.com/v1/openai", "gateway.example.com/v1/openai"),
        ("https://gateway.example.com/openai#f", "gateway.example.com/openai"),
    ],
)
def test_the_address_is_host_port_and_path(url: str, address: str) -> None:
    assert Upstream(address, has_credentials=False) == upstream_of(url)


def test_services_at_one_gateway_are_told_apart_and_spellings_of_one_are_not() -> None:
    urls = [
        "https://g.example.com/a",
        "https://g.example.com/b",
        "https://g.example.com:8443/a",
        "https://G.example.com/a/v2",
    ]
    first, second, third, fourth = (found.provider_id for url in urls if (found := upstream_of(url)) is not None)
    assert "gateway:g.example.com/a" == first == fourth
    assert 3 == len({first, second, third})


@pytest.mark.parametrize(
    "url",
    ["", "  ", "api.example.com", "ftp://api.example.com", "https://", "https://:443", "unix:///run/a.sock",
     "https://api.example.com:99999", "https://[::1", "https://a.example.com:port",
     "https:// a", "https://a b", "https://.", "https://a.."],
)  # fmt: skip
def test_what_names_no_service_is_none(url: str) -> None:
    assert upstream_of(url) is None


@pytest.mark.parametrize("path", [SECRET, f"a/{SECRET}", f"{SECRET}/v1", "%41", "a b", "1a", "x" * 33, "é"])
def test_a_path_that_may_be_a_secret_is_never_named(path: str) -> None:
    """Some gateways have the key in the path; then the provider is unknown and health stays with the profile."""
    assert upstream_of(f"https://api.example.com/{path}") is None


@pytest.mark.parametrize("login", [f"user:{SECRET}@", f"{SECRET}@", f":{SECRET}@"])
def test_a_login_in_the_url_is_noticed_and_not_named(login: str) -> None:
    found = upstream_of(f"https://{login}api.example.com/a")
    assert Upstream("api.example.com/a", has_credentials=True) == found


def test_a_query_may_be_a_login_and_is_not_named() -> None:
    assert Upstream("api.example.com/a", has_credentials=True) == upstream_of(f"https://api.example.com/a?key={SECRET}")


@given(st.text() | st.text().map("https://api.example.com/{}".format) | st.text().map("https://{}".format))
def test_no_text_breaks_it(url: str) -> None:
    found = upstream_of(url)
    assert found is None or re.fullmatch(
        r"(\[[0-9a-f:.]+\]|[\w.-]*\w)(:\d+)?(/[A-Za-z][A-Za-z0-9._-]*)*", found.address
    )


@pytest.mark.parametrize("url", ["https://evil.example\\@api.example.com", "https://api.example.com\\.evil.example"])
def test_an_address_that_others_read_as_another_host_names_none(url: str) -> None:
    """R-CIR-1: the vendor's circuit is not opened by what somebody else's service answers."""
    assert upstream_of(url) is None

"""Which names sign in or choose an account (R-CIR-3)."""

from __future__ import annotations

import pytest

from kandev_routing_sdk.spec import carries_login

LOGINS = """
    Authorization Proxy-Authorization cf-aig-authorization Helicone-Auth x-api-key API-KEY apiKey apikey x-goog-api-key
    Ocp-Apim-Subscription-Key x-portkey-virtual-key Cookie X-Gateway-Secret x-amz-security-token X-Proxy-Token authToken
    credentials X-Signature sig X-Password OpenAI-Organization organisation x-org-id orgId X-Org OpenAI-Project x-goog-user-project
    ChatGPT-Account-Id accountId tenant X-Tenant-Id workspace x-team subscription JWT
"""
HARMLESS = """
    x-request-id User-Agent anthropic-beta anthropic-version api-version accept Accept-Encoding content-type HTTP-Referer X-Title
    originator OpenAI-Beta x-stream region timeout baseURL deployment traceparent anthropic-dangerous-direct-browser-access
    origin design forge x-app helicone-cache-enabled
"""


@pytest.mark.parametrize("name", LOGINS.split())
def test_a_name_that_signs_in_or_chooses_an_account(name: str) -> None:
    assert [True, True, True] == [carries_login(each) for each in (name, name.lower(), name.upper())]


@pytest.mark.parametrize("name", HARMLESS.split())
def test_a_name_that_does_neither(name: str) -> None:
    assert [False, False, False] == [carries_login(each) for each in (name, name.lower(), name.upper())]

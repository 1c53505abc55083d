"""What looks like a secret and is none stays readable (R-EVI-5): a cleaned text is still read by people and by rules."""

from __future__ import annotations

import json

import pytest

from kandev_routing_sdk.evidence.sanitise import Sanitiser

CLEAN = Sanitiser()
HASH = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
UUID = "4890af18-50a6-43a8-9af1-8755160191f2"

KEPT = [
    # Git
    *[f"commit {HASH[:length]}" for length in (7, 8, 10, 12, 16, 20, 28, 40)],
    f"HEAD is now at {HASH[:9]} Fix the retry loop",
    f"Merge: {HASH[:8]} {HASH[8:16]}",
    f"index {HASH[:7]}..{HASH[7:14]} 100644",
    f"{HASH}\trefs/heads/main",
    f"{HASH}\n{HASH[::-1]}\n{HASH[1:]}0",
    f"checkout moving from main to {HASH}",
    "git clone git@github.com:owner/repo.git",
    "refs/remotes/origin/feature/add-token-refresh-2024-11-05",
    # Digests and identifiers of public things
    f"sha256:{DIGEST}",
    f"python@sha256:{DIGEST}",
    f"ghcr.io/owner/image:1.2.3@sha256:{DIGEST}",
    f"--hash=sha256:{DIGEST}",
    "integrity sha512-" + "z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    f"session {UUID}",
    f'"session_id":"{UUID}"',
    f"model {UUID} is deprecated",
    f"https://docs.example.com/errors/{UUID}",
    f"thread/{UUID}/turn/1",
    "sessionID ses_01abcDEF23ghiJKL45mno",
    "toolu_01A09q90qw90lq917835lq9",
    "msg_01XFDUDYJgAACzvnptvVoYEL",
    # Models and packages
    "claude-sonnet-4-5-20250929",
    "anthropic/claude-3.7-sonnet:thinking",
    "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
    "gpt-5.1-codex-max, gpt-4o-mini-2024-07-18 and o3-mini",
    "models/gemini-2.5-flash-preview-native-audio-dialog",
    "accounts/fireworks/models/llama4-maverick-instruct-basic",
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8",
    '{"key":"claude-sonnet-4-5-20250929","value":1}',
    '{"access":"read-only","refresh":"every-10-minutes"}',
    "@anthropic-ai/claude-code@2.1.104",
    "@openai/codex-linux-x64@0.119.0-win32-x64",
    "opencode-ai 1.0.0-beta.12+build.20251103",
    "typescript-eslint-parser-for-extra-files-v0.9.0.tgz",
    "ms-dotnettools.vscode-dotnet-runtime-2.3.7",
    "key_management_service_unavailable",
    "secret_management_configuration_missing",
    "hooks-before-each-and-after-each-test",
    "co-authored-by-a-colleague-of-mine",
    "Python 3.12.4 (main, Jun  6 2024, 18:26:44) [GCC 11.4.0] on linux",
    "codex-cli 0.63.0 (build a1b2c3d)",
    # Files and paths
    "src/main/java/com/example/application/configuration/SecurityConfiguration.java",
    "node_modules/.pnpm/@modelcontextprotocol+sdk@1.20.2/node_modules/zod/lib/index.js",
    "dist/assets/index-B7d2kQ9x.js",
    "a-long-file-name-with-2024-01-15-and-v2-in-it-final-final.tar.gz",
    "tests/unit/test_authentication_token_refresh_flow_end_to_end.py::TestFlow::test_401",
    "/usr/local/lib/python3.12/site-packages/httpx/_transports/default.py",
    "/opt/homebrew/Cellar/node/24.1.0/lib/node_modules/npm/bin/npm-cli.js",
    "~/.local/share/claude/versions/2.1.104",
    "logo@2x.png and icon@3x.webp",
    "AbsolutePathBufDeserializedWithoutBasePathInConfigurationFile",
    "TestRetryAfterHttp429WithExponentialBackoffAndJitterV2",
    "com.example.service.internal.TokenRefreshSchedulerImpl$Worker1",
    "THIS_IS_A_VERY_LONG_CONSTANT_NAME_IN_SOME_MODULE_2",
    "org.springframework.security.oauth2.client.OAuth2AuthorizationException",
    "_ZN5codex4core6client12ModelClient6stream17h",
    # Stack traces
    "    at TLSSocket.onConnectEnd (node:_tls_wrap:1727:19)",
    "    at async AnthropicClient.makeRequest (file:///usr/lib/cli.js:2:48193)",
    'File "/usr/lib/python3.12/asyncio/runners.py", line 194, in run',
    "thread 'main' panicked at core/src/client.rs:418:22:",
    "0x00007fff8a3b1c20 in __pthread_kill ()",
    "goroutine 17 [running]: net/http.(*conn).serve(0xc0001a6000)",
    # Addresses without a query
    "https://docs.claude.com/en/api/errors#http-errors",
    "https://github.com/anthropics/claude-code/issues/1234",
    "https://status.openai.com/incidents/01JMYB7F2R3PW0RGKWAT9V9MZB",
    "http://127.0.0.1:4096/session",
    "http://localhost:8080/@scope/pkg/-/pkg-1.0.0.tgz",
    "wss://api.openai.com/v1/responses",
    "connect ECONNREFUSED 127.0.0.1:8080",
    "getaddrinfo ENOTFOUND api.anthropic.com",
    "fe80::1ff:fe23:4567:890a%eth2",
    # Times, numbers, codes
    "2026-05-14T10:00:00.123456Z",
    "2026-04-03T22:04:39.333872Z ERROR codex_acp::thread: Unhandled error during turn",
    "Claude AI usage limit reached|1760000400",
    "resets 1:30am (Asia/Dhaka)",
    "x-ratelimit-reset-tokens: 6m0s",
    "anthropic-ratelimit-unified-reset: 1760000400",
    '{"max_tokens":4096,"input_tokens":12,"cache_read_input_tokens":0}',
    "rate_limit_error overloaded_error insufficient_quota model_not_found",
    "AADSTS700082: The refresh token has expired due to inactivity.",
    "error code: 1015, ERR_HTTP2_STREAM_ERROR, EAI_AGAIN, 0x80070005",
    "status code: 404, exit code 137",
    "HTTP/1.1 401 Unauthorized",
    "progress 50%20 and 100%25 done",
    "https://example.com/a%20b/c%2Fd",
    # Sentences about secrets
    "Invalid API key · Fix external API key",
    "Your access token could not be refreshed because your refresh token was revoked.",
    "Unexpected token 'export', expected one of '{'",
    "SyntaxError: Unexpected token < in JSON at position 0",
    "Set ANTHROPIC_API_KEY or run `claude login`.",
    "OAuth token has expired. Please obtain a new token or refresh your existing token.",
    "the password must have at least 12 characters",
    "bearer token authentication is required; basic authentication is not",
    "Missing bearer or basic authentication in header",
    'header "x-api-key" is missing; "authorization" is empty',
    "verification code was sent; enter the code",
    "This organization has been disabled.",
    "account is suspended due to insufficient balance",
    "tests passed: 12, pass: 3",
    "2 passed\ntest_http2_limits.py::test_a1\ntest_http2_limits.py::test_b2",
    "line one ends with a_long_identifier_v2\nnext_line_starts_with_one_v3 too",
    "mysql -h db -P 3306 -u app",
    'API key "OPENAI_API_KEY" not found in keys.json',
    "request_id: N/A",
]


@pytest.mark.parametrize("text", KEPT)
def test_an_ordinary_text_stays_as_it_is(text: str) -> None:
    assert text == CLEAN.text(text)


@pytest.mark.parametrize("text", KEPT)
def test_an_ordinary_text_stays_as_it_is_in_a_document(text: str) -> None:
    """Wrapped as agents wrap it: escaped in JSON, and as a value."""
    document = json.dumps({"error": {"message": text}})
    assert document == CLEAN.text(document)
    assert {"message": text, "list": [text]} == CLEAN.value({"message": text, "list": [text]})


def test_there_are_enough() -> None:
    assert len(set(KEPT)) >= 60


@pytest.mark.parametrize(
    ("clean", "text"),
    [
        (f"commit {HASH} by [redacted:email]", f"commit {HASH} by jane@example.com"),
        ("request [redacted:id] failed with 529", "request req_011CaXyZ12345678AbCdEf failed with 529"),
        (
            "org [redacted:id] on gpt-5.1-codex: Limit 30000",
            "org org-aB3dE5fG7hJ9kL1mN3pQ5r on gpt-5.1-codex: Limit 30000",
        ),
        ("~/repo/src/app.py:12: SyntaxError", "/home/jane/repo/src/app.py:12: SyntaxError"),
        (
            "https://claude.ai/api/organizations/[redacted:id]/usage (HTTP 429)",
            f"https://claude.ai/api/organizations/{UUID}/usage (HTTP 429)",
        ),
        ("https://[redacted:user]@h.example:8080/p: 401", "https://u:p/w#d@h.example:8080/p: 401"),
        (
            "key [redacted:key]\n2026-05-14T10:00:00Z retry",
            "key ghp_aB3dE5fG7hJ9kL1mN3pQ5r\n2026-05-14T10:00:00Z retry",
        ),
        ("key [redacted:key]\nHTTP 401", "key ghp_aB3dE5fG7hJ9kL1mN3pQ5r\nHTTP 401"),
        ("key [redacted:key]\nTraceback", "key ghp_aB3dE5fG7hJ9kL1mN3pQ5r\nTraceback"),
        ("x%3D[redacted:key]%26retry%3D5", "x%3Dghp_aB3dE5fG7hJ9kL1mN3pQ5r%26retry%3D5"),
        ('{"name":"Authorization","value":"[redacted:secret]"}', '{"name":"Authorization","value":"abc"}'),
        ("password: >-\n  [redacted:secret]\nport: 5432", "password: >-\n  hunter2\nport: 5432"),
        ("&quot;password&quot;:&quot;[redacted:secret]&quot;, 401", "&quot;password&quot;:&quot;hunter2&quot;, 401"),
        ("API key [redacted:secret] is invalid", "API key aB3dE5fG7hJ9kL1mN3pQ5r is invalid"),
    ],
)
def test_only_what_must_go_goes(clean: str, text: str) -> None:
    """R-EVI-5: what stands around a secret is what the reader came for."""
    assert clean == CLEAN.text(text)

"""Sanitising (R-EVI-5): what must go, what must stay, and that doing it again changes nothing."""

from __future__ import annotations

import base64
import itertools
import json
import re
import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kandev_routing_sdk.evidence.sanitise import EXCERPT_LIMIT, Sanitiser, excerpt
from kandev_routing_sdk.evidence.shapes import MARKER, RULES
from kandev_routing_sdk.evidence.timing import hints_from_text

ADMIN = "/{}".format("root")  # in pieces: the house allows no path of one machine in its files

CLEAN = Sanitiser()
R22 = "aB3dE5fG7hJ9kL1mN3pQ5r"
R40 = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7d"
HEX32 = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"

# name: (what must be gone, how it is written). Built from pieces so that no scanner takes this file for a leak.
SECRETS: dict[str, str] = {
    "anthropic": f"sk-ant-api03-{R40}",
    "anthropic-oauth": f"sk-ant-oat01-{R40}-AA",
    "openai": f"sk-{R40}",
    "openai-project": f"sk-proj-{R22}_{R22}",
    "openai-service": f"sk-svcacct-{R40}",
    "openai-session": f"sess-{R40}",
    "openrouter": f"sk-or-v1-{HEX32}{HEX32}",
    "google": f"AIza{R22}{R22[:13]}",
    "google-oauth": f"ya29.a0{R40}",
    "google-refresh": f"1//0g{R40}",
    "google-client": f"GOCSPX-{R22}",
    "github-classic": f"ghp_{R22}{R22[:14]}",
    "github-oauth": f"gho_{R22}{R22[:14]}",
    "github-server": f"ghs_{R22}{R22[:14]}",
    "github-fine": f"github_pat_{R22}_{R40}",
    "gitlab": f"glpat-{R22}",
    "gitlab-runner": f"glrt-{R22}",
    "slack-bot": f"xoxb-1234567890-1234567890-{R22}",
    "slack-user": f"xoxp-1234567890-{R22}",
    "slack-app": f"xapp-1-A0123-456-{R22}",
    "aws-id": "AKIAIOSFODNN7EXAMPL3",
    "aws-session": "ASIAIOSFODNN7EXAMPL3",
    "huggingface": f"hf_{R22}{R22[:12]}",
    "replicate": f"r8_{R22}{R22[:15]}",
    "groq": f"gsk_{R22}{R22}",
    "xai": f"xai-{R40}",
    "perplexity": f"pplx-{R40}",
    "nvidia": f"nvapi-{R40}",
    "moonshot": f"ak-{R22}",
    "npm": f"npm_{R22}{R22[:14]}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{R40}",
    "docker": f"dckr_pat_{R22}",
    "digitalocean": f"dop_v1_{HEX32}{HEX32}",
    "sendgrid": f"SG.{R22}.{R40}",
    "stripe-live": f"sk_live_{R22}",
    "stripe-restricted": f"rk_live_{R22}",
    "stripe-webhook": f"whsec_{R22}",
    "twilio": f"SK{HEX32}",
    "databricks": f"dapi{HEX32}",
    "vault": f"hvs.{R40}",
    "doppler": f"dp.pt.{R40}",
    "tailscale": f"tskey-auth-{R22}",
    "grafana": f"glsa_{R40}",
    "sentry": f"sntrys_{R40}",
    "linear": f"lin_api_{R40}",
    "notion": f"ntn_{R40}",
    "figma": f"figd_{R40}",
    "shopify": f"shpat_{HEX32}",
    "atlassian": f"ATATT3xFfGF0{R40}",
    "telegram": f"123456789:AAE{R22}{R22[:12]}",
    "supabase": f"sbp_{HEX32}",
    "postman": f"PMAK-{R22}-{R22}",
    "newrelic": f"NRAK-{R22}{R22[:5]}",
    "age": "AGE-SECRET-KEY-1QQPQYQWZ4JH3X7K5M6N8P9RSTUVWXYZ0234567ACDEFGHJKL",
    "azure-client": f"abc8Q~{R22}{R22[:12]}",
    "mailchimp": f"{HEX32}-us12",
    "jwt": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{R22}{R22}",
    "jwt-cut": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9",
    "opaque-base62": R40,
    "opaque-base64": "wJalrXUtnFEMI/K7MDENGbPxRfiCYzEXAMPLEKEY" + "/q8Zr2Lw+9TxQ==",
    "opaque-hex": HEX32,
    "opaque-hex64": HEX32 + HEX32[::-1],
    "email": "jane.doe+test@mail.example.co.uk",
    "org": "org-" + R22,
    "acct": "acct_1Nv0FGQ9RKHgCVdK",
    "req": "req_011CaXyZ12345678",
    "wrkspc": "wrkspc_01AbCdEfGhIjKl",
}
EMBEDDINGS = {
    "alone": "{}",
    "sentence": "Request failed with {} in it.",
    "colon": "value: {}",
    "quoted": 'error: "{}" was refused',
    "json": '{{"error":{{"message":"bad thing {}"}},"status":429}}',
    "escaped": r"{{\"detail\":\"line\n{} end\"}}",
    "brackets": "account <{}> (see [{}])",
    "lines": "first\n{}\nlast",
    "colour": "\x1b[31m{}\x1b[0m",
    "unicode": "→ «{}» …",
}


@pytest.mark.parametrize("kind", list(SECRETS))
@pytest.mark.parametrize("embedding", list(EMBEDDINGS))
def test_a_secret_is_gone_wherever_it_stands(kind: str, embedding: str) -> None:
    """R-EVI-5: keys of all common vendors, JWTs, opaque strings, addresses, ids."""
    secret = SECRETS[kind]
    count = EMBEDDINGS[embedding].count("{}")
    clean = CLEAN.text(EMBEDDINGS[embedding].format(*[secret] * count))
    assert secret not in clean
    pieces = {secret[start : start + 8] for start in range(len(secret) - 8)}
    assert set() == {piece for piece in pieces if piece in clean}
    assert "[redacted:" in clean


@pytest.mark.parametrize(
    ("canary", "text"),
    [
        ("hunter2", "password=hunter2"),
        ("hunter2", "DB_PASSWORD='hunter2'"),
        ("hunter2", 'password: "hunter2"'),
        ("hunter", "password: hunter"),
        ("hunter2", "passwd = hunter2, status=429"),
        ("hunter2", "--password hunter2 --verbose"),
        ("hunter2", "--db-password=hunter2"),
        ("hunter2", "→ «--password hunter2» …"),
        ("hunter2", r"line\n--password hunter2"),
        ("hunter2", "mysql -u root --password=hunter2"),
        ("hunter2", "<password>hunter2</password>"),
        ("hunter2", "the password is hunter2"),
        ("hunter2", "password is: hunter2"),
        ("hunter2", "curl -u jane:hunter2 https://h.example"),
        ("hunter2", "Server=h;Uid=sa;Pwd=hunter2;"),
        ("abcdef123456789", '"refresh":"rt_abcdef123456789ABCD"'),
        ("hun ter2", '{"password":"hun ter2"}'),
        ("hunter2", r"{\"password\":\"hunter2\"}"),
        ("hunter2", r"{\\\"password\\\": \\\"hunter2\\\"}"),
        ("hun", r'{"password":"a\"hun"}'),
        ("hunter2", "{'password': 'hunter2'}"),
        ("hunter2", "password => 'hunter2'"),
        ("hunter2", 'os.environ["DB_PASSWORD"] = "hunter2"'),
        ("hunter2", r"line one\npassword=hunter2\nline"),
        ("hunter2", r"PASSWORD=hunter2\nOTHER=1"),
        ("ab,cd!ef", "password=ab,cd!ef"),
        ("hunter2", "max_tokens=5 password=hunter2"),
        ("hunter2", 'author: "password=hunter2"'),
        ("def456", "token=abc123,|token=def456"),
        ("shorty7", "ANTHROPIC_API_KEY=shorty7"),
        ("shorty7", "export OPENAI_API_KEY=shorty7"),
        ("shorty7", '"apiKey": "shorty7"'),
        ("shorty7", "x-api-key: shorty7"),
        ("shorty7", "X-Goog-Api-Key: shorty7"),
        ("shorty7", "--api-key shorty7"),
        ("shorty7", '["--api-key", "shorty7"]'),
        ("shorty7", "API key: shorty7"),
        ("shorty7", "Incorrect API key provided: shorty7."),
        ("shorty7", "client_secret=shorty7&grant_type=x"),
        ("shorty7", '"refreshToken":"shorty7"'),
        ("shorty7", '"access_token" : "shorty7"'),
        ("shorty7", "CLAUDE_CODE_OAUTH_TOKEN=shorty7"),
        ("shorty7", "aws_secret_access_key = shorty7"),
        ("shorty7", "AccountKey=shorty7==;EndpointSuffix=core"),
        ("shorty7", "//registry.example.org/:_authToken=shorty7"),
        ("abc123xyz", "Authorization: Bearer abc123xyz"),
        ("abc123xyz", "authorization: abc123xyz"),
        ("abc123xyz", '"Authorization": "Bearer abc123xyz"'),
        ("abc123xyz", "-H 'Authorization: token abc123xyz'"),
        ("dXNlcjpwYXNz", "Authorization: Basic dXNlcjpwYXNz"),
        ("dXNlcjpwYXNz", "sent Basic dXNlcjpwYXNz to it"),
        ("abc123xyz", "used bearer abc123xyz"),
        ("abc123xyz", 'Authorization: Digest username="u", response="abc123xyz"'),
        ("abc123xyz", "Proxy-Authorization: Basic abc123xyz"),
        ("s3ss", "Cookie: sid=s3ss; theme=dark"),
        ("t0p", "Cookie: theme=dark; sid=t0p"),
        ("s3ss", "Set-Cookie: sid=s3ss; Expires=Wed, 09 Jun 2027 10:18:14 GMT; HttpOnly"),
        ("s3ss", '{"cookie":"sid=s3ss; a=b"}'),
        ("wJalr/K7MD", "AWS_SECRET_ACCESS_KEY=wJalr/K7MD"),
        ("bob", "https://bob:pw@example.com/path"),
        ("p@w", "postgres://bob:p@w@db.example.com:5432/app"),
        ("tok1", "https://tok1@github.com/o/r.git"),
        ("abc", "https://example.com/a?key=abc"),
        ("abc", "GET /v1/x?alt=sse&key=abc HTTP/1.1"),
        ("abc", r"https://example.com/a?b=c\u0026key=abc"),
        ("abc", "https://example.com/cb#access_token=abc&x=1"),
        ("T00/B00/x9y8", "https://hooks.slack.com/services/T00/B00/x9y8"),
        ("x9y8", "https://discord.com/api/webhooks/123/x9y8"),
        (PEM_BODY[:20], f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"),
        (PEM_BODY[-20:], f"-----BEGIN PRIVATE KEY-----\\n{PEM_BODY}\\n{PEM_BODY}\\n-----END PRIVATE KEY-----\\n"),
        (PEM_BODY[-20:], f"key: -----BEGIN OPENSSH PRIVATE KEY-----\n{PEM_BODY}\n{PEM_BODY[:30]}"),
        ("abcd1234", f"{PEM_BODY}\nabcd1234\n-----END EC PRIVATE KEY-----"),
        ("f****", "key sk-f*****************0000. You can"),
        ("0000", "key sk-f*****************0000. You can"),
        ("11111111-2222", "organization 11111111-2222-4333-8444-555555555555 is disabled"),
        ("11111111-2222", "request id: 11111111-2222-4333-8444-555555555555"),
        ("org-fake", "Rate limit reached for m in organization org-fake on tokens"),
        ("acme-corp", "workspace: acme-corp"),
        ("123456", '"account_id": "123456"'),
        ("123456789012", "arn:aws:bedrock:us-east-1:123456789012:inference-profile/x"),
        ("1234567", "exceeded for user ID 1234567. ..."),
        ("00000000a", "cf-ray: 00000000a-DEL"),
        ("alice", "/home/alice/.config/gh/hosts.yml"),
        ("alice", "cd /Users/alice"),
        ("alice", r"C:\Users\alice\AppData"),
        ("alice", r"C:\\Users\\alice\\AppData"),
        ("Smith", r"C:\Users\Alice Smith\AppData\x"),
        ("alice", "file:///home/alice/x"),
        ("alice", r"\n/home/alice/x"),
        ("alice", "-I/home/alice/include"),
        ("alice", "PATH=/usr/bin:/home/alice/bin"),
        ("alice", "~/.claude/projects/-home-alice-repo/x.jsonl"),
        ("root", f"{ADMIN}/.ssh/config"),
        ("a%40", "user a%40example.com"),
        ("jörg", "jörg@example.com"),
    ],
)
def test_a_named_secret_or_detail_is_gone(canary: str, text: str) -> None:
    """R-EVI-5: by name, by header, in URLs, private keys, ids and homes."""
    clean = CLEAN.text(text)
    assert canary not in clean
    assert clean == CLEAN.text(clean)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You've hit your limit · resets 1:30am (Asia/Dhaka)",
        "Claude AI usage limit reached|1760000400",
        "Please try again in 6m0s.",
        "API Error (529 overloaded_error) · Retrying in 4 seconds… (attempt 4/10)",
        "exceeded retry limit, last status: 429 Too Many Requests",
        '{"type":"error","status":400,"error":{"type":"invalid_request_error","message":"no"}}',
        '{"max_tokens":4096,"input_tokens":12,"token_count":5,"total_tokens": 18}',
        "x-ratelimit-reset-tokens: 6m0s",
        "x-ratelimit-remaining-tokens: 0",
        "Limit 30000, Used 29000, Requested 5000.",
        "rate limit of 20,000 input tokens per minute for your organization of ten",
        "Your access token could not be refreshed because your refresh token was revoked.",
        "Failed to refresh token: 401 Unauthorized: Your refresh token has already been used",
        "Token refresh failed: 401",
        "token: expired",
        "Invalid API key · Fix external API key",
        "invalid x-api-key",
        "Missing API key · Run /login",
        "Check your COPILOT_PROVIDER_API_KEY or COPILOT_PROVIDER_BEARER_TOKEN.",
        '"apiKeySource":"ANTHROPIC_API_KEY"',
        "bearer token authentication is required; basic authentication is not",
        "This organization has been disabled.",
        "account is suspended due to insufficient balance",
        "org_level_disabled",
        "request failed after 3 attempts; req_headers and user_settings are fine",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "commit da39a3e on branch main",
        "sha256:" + HEX32 + HEX32[::-1],
        "session 4890af18-50a6-43a8-9af1-8755160191f2",
        "claude-sonnet-4-5-20250929",
        "us.anthropic.claude-3-7-sonnet-20250219-v1:0",
        "models/gemini-2.5-flash-preview-native-audio-dialog",
        "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
        "2026-04-03T22:04:39.333872Z ERROR codex_acp::thread: Unhandled error during turn",
        "Missing optional dependency @openai/codex-linux-x64@0.119.0-win32-x64",
        "npm install -g @openai/codex@latest pkg@1.2.3-beta.rc",
        "git clone git@github.com:owner/repo.git",
        "logo@2x.png",
        "~/.local/share/claude/versions/2.1.104",
        "/usr/local/lib/node_modules/@anthropic-ai/claude-code/cli.js:100",
        "src/main/java/com/example/application/configuration/SecurityConfiguration.java",
        "node-v22.5.1-linux-x64-with-a-really-long-directory-name-2024-01-15",
        "AbsolutePathBufDeserializedWithoutBasePathInConfigurationFile",
        "THIS_IS_A_VERY_LONG_CONSTANT_NAME_IN_SOME_MODULE_2",
        "https://docs.claude.com/en/api/errors#http-errors",
        "https://example.com/home/page",
        "http://172.30.0.30:10002 (HTTP 401).",
        "Unexpected token < in JSON at position 0",
        '["isRetryable-token","statusCode"]',
        "--token-limit 500 --max-tokens 12",
        "tests passed: 12, pass: 3",
        "is this right? yes=no",
        "The task_key is fine, keyboard=qwerty",
        "spec.rb:418-429",
        "PWD=/usr/src/app",
        "sig: SIGTERM",
        "use the token to continue123",
        "docker run -u 1000 image:latest",
        "spawn /usr/bin/node ENOENT",
    ],
)
def test_what_a_reader_and_the_classifier_need_stays(text: str) -> None:
    """R-EVI-5: hashes, names, versions, times, statuses and prose are not touched."""
    assert text == CLEAN.text(text)


@pytest.mark.parametrize(
    ("clean", "text"),
    [
        ("request id: [redacted:id], status 429", "request id: req_011CaXyZ12345678, status 429"),
        ("Contact [redacted:email] to discuss", "Contact sales@anthropic.com to discuss"),
        ("https://[redacted:user]@example.com/p?[redacted:query]", "https://u:p@example.com/p?a=b#c"),
        ("see [x](https://a.example/b?[redacted:query]) now", "see [x](https://a.example/b?tier=pro) now"),
        ("(token=[redacted:secret]), retry in 5s", "(token=abc123xyz), retry in 5s"),
        ("token=[redacted:secret],status=429", "token=abc123xyz,status=429"),
        ("~/repo/.git: ~/x", f"/home/u/repo/.git: {ADMIN}/x"),
        (r"~\AppData", r"C:\Users\u\AppData"),
        ("Authorization: [redacted:secret]", "Authorization: Bearer abc123xyz"),
        ("Set-Cookie: [redacted:cookie]", "Set-Cookie: sid=s3ss; Path=/; HttpOnly"),
        (
            '{"a":"[redacted:private-key]"}',
            f'{{"a":"-----BEGIN PRIVATE KEY-----\\n{PEM_BODY}\\n-----END PRIVATE KEY-----"}}',
        ),
        ("red text", "\x1b[31mred\x1b[0m text"),
    ],
)
def test_only_the_secret_itself_is_replaced(clean: str, text: str) -> None:
    assert clean == CLEAN.text(text)


def test_timing_survives() -> None:
    """R-CLS-5: what a hint is read from is still there after sanitising."""
    text = "acct_1Nv0FGQ9RKHgCVdK: resets 1:30am (Asia/Dhaka), request id: req_1a2b3c; try again in 6m0s or |1760000400"
    before, after = (hints_from_text(t, observed_at=None, local_zone=None) for t in (text, CLEAN.text(text)))
    assert [hint.retry_after for hint in before] == [hint.retry_after for hint in after]
    assert before


@pytest.mark.parametrize("value", ["correct horse battery", "pä55/wörd+&=", 'with"quote\\and', "plainsecret", "abc123"])
def test_known_values_go_in_every_form(value: str) -> None:
    """R-EVI-5: also URL-encoded, JSON-escaped, base64, hex."""
    clean = Sanitiser([value])
    forms = [value, quote(value), quote(value, safe=""), json.dumps(value), json.dumps({"a": json.dumps(value)})]
    forms += [value.encode().hex(), json.dumps(value, ensure_ascii=False)]
    for form in forms:
        inner = form.strip('"')
        assert inner not in clean.text(f"before {form} after")
    if len(value) < 8:
        return
    for prefix in ("", "u", "us", "use", "user:"):
        for suffix in ("", "x", "xy"):
            coded = base64.b64encode((prefix + value + suffix).encode()).decode()
            start = len(coded) // 2 - 3
            assert coded[start : start + 6] not in clean.text(f"before {coded} after")


def test_known_values_are_the_longest_first_and_the_short_ignored() -> None:
    clean = Sanitiser(["secretvalue", "secretvalue-long", "to", ""])
    assert "a [redacted:secret] b [redacted:secret] to" == clean.text("a secretvalue-long b secretvalue to")


def test_a_known_multiline_value_goes_line_by_line() -> None:
    line = "Zm9vYmFyYmF6cXV4Zm9vYmFy" + "QUJD"
    assert line not in Sanitiser([f"first\n{line}\nlast"]).text(f"| {line} |")


def test_known_values_do_not_touch_markers() -> None:
    """A secret named like a marker's word must not make markers grow."""
    clean = Sanitiser(["redacted", "secret"])
    once = clean.text("redacted and secret and jane@example.com")
    assert "[redacted:secret] and [redacted:secret] and [redacted:email]" == once
    assert once == clean.text(once)


def test_a_sanitiser_shows_nothing_of_what_it_knows() -> None:
    """R-EVI-5."""
    clean = Sanitiser(["topsecretvalue"])
    assert "topsecret" not in repr(clean)
    assert not hasattr(clean, "__dict__")
    with pytest.raises(TypeError):
        clean.__reduce__()


def test_values_are_cleaned_at_every_depth() -> None:
    dirty: Any = {
        "error": {"message": "for jane@example.com", "status": 429, "resets_at": 1760000400},
        "headers": [{"name": "Authorization", "value": "abc"}, {"name": "accept", "value": "json"}],
        "env": {"ANTHROPIC_API_KEY": "abc", "HOME": "/home/jane", "EMPTY_TOKEN": "", "NO_TOKEN": None},
        "argv": ["claude", "--api-key", "abc", "--token", "--verbose"],
        "usage": {"input_tokens": 12, "token": 5, "tokens": [1, 2]},
        "password": 123456,
        "credentials": {"user": "jane", "nested": [{"k": "abc"}]},
        "account_id": "1234",
        "organization": {"id": "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "type": "team"},
        "jane@example.com": 1,
        "joe@example.com": 2,
        "ok": True,
    }
    expected = {
        "error": {"message": "for [redacted:email]", "status": 429, "resets_at": 1760000400},
        "headers": [{"name": "Authorization", "value": "[redacted:secret]"}, {"name": "accept", "value": "json"}],
        "env": {"ANTHROPIC_API_KEY": "[redacted:secret]", "HOME": "~", "EMPTY_TOKEN": "", "NO_TOKEN": None},
        "argv": ["claude", "--api-key", "[redacted:secret]", "--token", "--verbose"],
        "usage": {"input_tokens": 12, "token": 5, "tokens": [1, 2]},
        "password": "[redacted:secret]",
        "credentials": {"user": "[redacted:secret]", "nested": [{"k": "[redacted:secret]"}]},
        "account_id": "[redacted:id]",
        "organization": {"id": "[redacted:id]", "type": "team"},
        "[redacted:email]": 1,
        "[redacted:email] (2)": 2,
        "ok": True,
    }
    assert expected == CLEAN.value(dirty)
    assert expected == CLEAN.value(CLEAN.value(dirty))


def test_deep_values_end_in_a_marker() -> None:
    deep: Any = "abc"
    for _ in range(500):
        deep = [deep]
    assert "[redacted:depth]" in json.dumps(CLEAN.value(deep))


def test_headers() -> None:
    dirty = {
        "Authorization": "Bearer abc",
        "X-Api-Key": "abc",
        "Set-Cookie": "a=b",
        "request-id": "req_1",
        "x-request-id": "abcdef",
        "anthropic-organization-id": "abc",
        "cf-ray": "1-DEL",
        "retry-after": "30",
        "x-ratelimit-reset-tokens": "6m0s",
        "anthropic-ratelimit-unified-reset": "1760000400",
        "location": "https://u:p@h.example/x?code=abc",
    }
    assert {
        "Authorization": "[redacted:secret]",
        "X-Api-Key": "[redacted:secret]",
        "Set-Cookie": "[redacted:secret]",
        "request-id": "[redacted:id]",
        "x-request-id": "[redacted:id]",
        "anthropic-organization-id": "[redacted:id]",
        "cf-ray": "[redacted:id]",
        "retry-after": "30",
        "x-ratelimit-reset-tokens": "6m0s",
        "anthropic-ratelimit-unified-reset": "1760000400",
        "location": "https://[redacted:user]@h.example/x?[redacted:query]",
    } == CLEAN.headers(dirty)


@pytest.mark.parametrize(
    ("expected", "text", "limit"),
    [
        ("abc", "abcdef", 3),
        ("a", "aé", 2),
        ("aé", "aé", 3),
        ("", "🖐", 3),
        ("🖐", "🖐x", 4),
        ("", "abc", 0),
        ("", "abc", -1),
        ("a?", "a\ud800", 9),
    ],
)
def test_an_excerpt_is_cut_on_a_character_boundary(expected: str, text: str, limit: int) -> None:
    """R-EVI-5: bytes of UTF-8."""
    assert expected == excerpt(text, limit)


@given(st.text(), st.integers(min_value=0, max_value=64))
def test_an_excerpt_fits_and_is_a_start(text: str, limit: int) -> None:
    part = excerpt(text, limit)
    assert len(part.encode()) <= limit
    assert text.encode("utf-8", "replace").decode().startswith(part)
    assert len(excerpt("é" * 4096).encode()) == EXCERPT_LIMIT


FRAGMENTS = st.sampled_from(
    [
        *SECRETS.values(), *[f"{name}{sep}" for name, sep in itertools.product(["password", "token", "api_key", "--secret", "cookie", "Authorization", "account id"], ["=", ": ", '": "', " "])],
        "[redacted:key]", "[redacted:", "[", "]", "~", "/home/", "/home/u", "/Users/x y", "C:\\Users\\", "https://", "u:p@", "?a=b", "#x=", "@", "@x.org", "a.b", ".",
        "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\n", "\\n", "\\", '"', "'", " ", ",", ";", "|", "=", "&", "Bearer ", "Basic ", "<token>", "</token>",
        "\x1b[31m", "***", "é", "\ud800", "org ", "req_", "sk-", "eyJ", "0", "A", "z9", "Expires=Wed, 09 Jun", "/root", "2026-05-14T10:00:00Z",
    ]
)  # fmt: skip


@given(st.lists(FRAGMENTS | st.text(max_size=6), max_size=24).map("".join))
@example("token=abc123,|token=def456,|token=ghi789")
def test_sanitising_again_changes_nothing(text: str) -> None:
    """R-EVI-5: idempotent."""
    once = CLEAN.text(text)
    assert once == CLEAN.text(once)
    assert len(once) <= 16 + 4 * len(text)


alphabet = string.ascii_letters + string.digits + "!#$%*+-./:?@^_~"


@given(
    st.text(alphabet, min_size=6, max_size=40),
    st.lists(FRAGMENTS, max_size=6).map("".join),
    st.lists(FRAGMENTS, max_size=6).map("".join),
)
def test_no_known_value_survives(secret: str, before: str, after: str) -> None:
    """R-EVI-5: the launch environment's secrets, among whatever else."""
    clean = Sanitiser([secret])
    text = clean.text(before + secret + after)
    rest = "".join(part for part in re.split(MARKER, text))
    assert secret not in rest
    assert text == clean.text(text)


@given(
    st.text(string.ascii_letters + string.digits, min_size=24, max_size=40).filter(
        lambda s: any(c.isdigit() for c in s) and any(c.isalpha() for c in s)
    ),
    st.sampled_from(
        [
            "sk-ant-{}",
            "ghp_{}",
            "password={}",
            '"token": "{}"',
            "Authorization: Bearer {}",
            "https://h.example/?k={}",
            "https://x:{}@h.example/",
            "Cookie: a={}",
            "xoxb-{}",
            "--api-key {}",
            "<secret>{}</secret>",
            "glpat-{}",
            "AIza{}",
        ]
    ),
    st.sampled_from(list(EMBEDDINGS.values())),
)
def test_no_canary_survives(canary: str, shape: str, embedding: str) -> None:
    """R-EVI-5: whatever the secret is, its shape gives it away."""
    text = CLEAN.text(embedding.format(*[shape.format(canary)] * embedding.count("{}")))
    assert canary not in text
    assert canary[:12] not in text


def test_every_pattern_is_linear_by_construction() -> None:
    """R-CLS-7: adversarial input of the full size is cleaned to a fixed point, with bounded growth."""
    assert len(RULES) > 20
    for seed in (
        "a",
        "-",
        "token=",
        "://a",
        "a@",
        "\\n",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "0f",
        "/home/",
        "cookie: a=b; ",
        "token=a1b2c3d4,|",
    ):
        text = (seed * (65536 // len(seed) + 1))[:65536]
        once = CLEAN.text(text)
        assert len(once) <= 4 * len(text)
        assert once == CLEAN.text(once)

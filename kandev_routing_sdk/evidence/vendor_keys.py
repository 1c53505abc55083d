"""The shapes of keys and tokens that vendors issue, by prefix, and of JWTs (R-EVI-5). Data: add a vendor by a line."""

from __future__ import annotations

from typing import Final

__all__ = ["GENERIC_PREFIX", "JWT", "KEYS", "MASKED", "WEBHOOKS"]

_B: Final = "[A-Za-z0-9_-]"  # base64url
_A: Final = "[A-Za-z0-9]"
_64: Final = "[A-Za-z0-9+/]"

_SHAPES: Final = (
    # Model providers and their gateways
    rf"sk-(?:ant|proj|or|svcacct|admin|lf|live|test|None|kimi|cp|user)-{_B}{{6,}}",
    rf"sess-{_A}{{16,}}",
    rf"ak-{_A}{{16,}}",
    rf"(?:gsk|csk|r8|nvapi|tvly|tgp_v1|esecret|lsv2_pt|lsv2_sk|api_org|wandb_v1|pcsk|jina|pplx|xai|sgp)[_-]{_B}{{18,}}",
    rf"rt\.1\.{_B}{{20,}}",
    rf"AIza{_B}{{24,}}",
    rf"ya29\.{_B}{{10,}}",
    rf"1//0{_B}{{16,}}",
    rf"GOCSPX-{_B}{{12,}}",
    rf"AQ\.{_A}{_B}{{16,}}",
    rf"bedrock-api-key-{_64}{{30,}}={{0,2}}",
    rf"ABSK{_64}{{40,}}={{0,2}}",
    rf"[0-9a-f]{{32}}\.{_A}{{16}}\b",
    # Forges and registries
    rf"gh[pousr]_{_A}{{16,}}",
    rf"github_pat_{_B}{{16,}}",
    rf"gl(?:pat|dt|rt|ft|imt|agent|ptt|soat|cbt|oas)-{_B}{{16,}}(?:\.[0-9a-z]{{2,}})*",
    rf"GR1348941{_B}{{16,}}",
    rf"npm_{_A}{{16,}}",
    rf"pypi-{_B}{{16,}}",
    rf"rubygems_{_A}{{16,}}",
    rf"oy2{_A}{{40,}}",
    rf"dckr_(?:pat|oat)_{_B}{{16,}}",
    rf"(?:ATATT3|ATCTT3|ATBB){_B}{{16,}}(?:=[0-9A-F]{{8}})?",
    rf"CFPAT-{_B}{{16,}}",
    rf"CCIPAT_{_B}{{20,}}",
    rf"bkua_{_A}{{20,}}",
    rf"AKCp{_A}{{40,}}",
    # Clouds
    r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{12,}",
    rf"LTAI{_A}{{12,}}",
    rf"do[opr]_v1_{_A}{{16,}}",
    r"dapi[0-9a-f]{24,}(?:-\d+)?",
    rf"(?:sbp|sb_secret|sb_publishable|supabase|pscale_tkn|pscale_pw|pscale_oauth|rnd|flyio|fo1|vcp|vercel|nfp)_{_B}{{16,}}",
    rf"(?:cfut|cfat|cfk|napi)_{_A}{{24,}}",
    rf"fm[12][ar]?_{_64}{{24,}}={{0,2}}",
    rf"HRKU-{_B}{{20,}}",
    rf"pul-{_A}{{24,}}",
    rf"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:{_B}{{1,40}}\.)?{_B}{{12,}}",
    rf"(?:hvs|hvb|hvr)\.{_B}{{16,}}",
    rf"{_A}{{14}}\.atlasv1\.{_B}{{20,}}",
    rf"tskey-{_B}{{12,}}",
    rf"v1\.0-[0-9a-f]{{20,}}-{_B}{{20,}}",
    rf"{_A}{{3}}8Q~[A-Za-z0-9_.~-]{{20,}}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{12,}",
    r"age1pq[a-z0-9]{40,}",
    # Payment, mail, chat, monitoring
    rf"(?:sk|rk|pk)_(?:live|test|prod|org_live|org_test)_{_A}{{8,}}",
    r"whsec_[A-Za-z0-9+/=]{12,}",
    rf"sq0(?:atp|csp|idp)-{_B}{{16,}}",
    rf"(?:access|sandbox)_token\$[a-z]+\${_A}{{16,}}",
    rf"EAA{_B}{{28,}}",
    rf"SG\.{_B}{{10,}}(?:\.{_B}*)?",
    r"(?:AC|SK)[0-9a-f]{32}",
    rf"xkeysib-{_B}{{20,}}",
    rf"re_{_A}{{6,}}_{_A}{{16,}}",
    r"[0-9a-f]{32}-us\d{1,2}",
    r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}",
    rf"xox[abcdeoprs](?:\.[a-z]+)?-{_B}{{8,}}(?:%[0-9A-Fa-f]{{2}}{_B}*)*",
    rf"xapp-{_B}{{8,}}",
    rf"\d{{8,10}}:AA{_B}{{28,}}",
    rf"[MNO]{_B}{{22,27}}\.{_B}{{6}}\.{_B}{{25,}}",
    rf"glc_{_64}{{20,}}={{0,2}}",
    rf"pat{_A}{{14}}\.[0-9a-f]{{32,}}",
    r"[12]/\d{12,}/\d{12,}:[0-9a-f]{32}",
    rf"(?:glsa|sntrys|sntryu|phc|phx|phs|lin_api|lin_oauth|ntn|figd|shpat|shpss|shpca|shppa|hcaik|crsr)_{_B}{{16,}}",
    rf"(?:NRAK|NRII|NRJS|PMAK|PMAT|FLWSECK|FLWPUBK|dt0c01|pat-na1|pat-eu1|apify_api|ddp|ddapp)[-_.]{_B}{{16,}}(?:\.{_B}{{16,}})?",
)
_WORDS: Final = (
    rf"(?:sk|pk|rk|ak)-{_B}{{8,}}",
    rf"(?:fw|hf|fal|co|rt|ms|zai|rc|bfl|key|fc|pa|secret|pat|hooks|ops|cio|ek|pnu|sk|glc)[_-]{_B}{{18,}}",
    rf"s\.{_A}{{24}}\b",
)
"""Prefixes that are words or parts of words, too: only what looks random after them is a key."""
_BEFORE: Final = r"\\[nrtf]|\\u[0-9a-fA-F]{4}|%[0-9A-Fa-f]{2}|\\x[0-9a-fA-F]{2}"
"""Escapes of signs that stand before a key: their own letters and digits belong to no word."""
KEYS: Final = rf"(^|{_BEFORE}|[^A-Za-z0-9_])(?:{'|'.join(_SHAPES)})"
"""RE2 source of a whole key after group 1, what stands before it."""
GENERIC_PREFIX: Final = rf"(^|{_BEFORE}|[^A-Za-z0-9_-])({'|'.join(_WORDS)})"
"""RE2 source of a key whose prefix is a word, too (group 2): what looks random is one."""
MASKED: Final = r"(^|[^A-Za-z0-9_*-])[A-Za-z0-9_-]{1,16}(?:\*{3,}|\.{3}|…|\x{2022}{3,})[A-Za-z0-9_-]{2,8}\b"
"""RE2 source of a key whose middle somebody else has hidden: its ends are account data still."""
JWT: Final = r"()eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){0,4}"
WEBHOOKS: Final = (
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks"
    r"|[a-z0-9.-]+\.webhook\.office\.com/webhookb2|hooks\.zapier\.com/hooks/catch)/)[A-Za-z0-9_@/-]+"
)

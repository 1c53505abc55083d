"""One prompt, the first agent that can, and who it was: python route_once.py PROFILE PROMPT, where a kandev-routing.toml is."""

import sys

from kandev_routing_sdk import RoutingError, route_once

if len(sys.argv) < 3:
    sys.exit(__doc__)
try:
    result = route_once(sys.argv[1], " ".join(sys.argv[2:]), timeout=600)
except RoutingError as failed:
    sys.exit(f"{failed.code}: {failed}")
print(result.text)
print(f"({result.execution_profile_id}, attempt {len(result.attempts)})", file=sys.stderr)

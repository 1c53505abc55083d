"""One prompt, the first agent that can, and who it was. Run it where a kandev-routing.toml is (see the one beside this file)."""

import sys

from kandev_routing_sdk import CallFailed, route_once

try:
    result = route_once(sys.argv[1], " ".join(sys.argv[2:]), timeout=600)
except CallFailed as failed:
    sys.exit(f"{failed.code}: {failed}")
print(result.text)
print(f"({result.execution_profile_id}, attempt {len(result.attempts)})", file=sys.stderr)

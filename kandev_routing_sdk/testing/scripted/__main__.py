"""``python -m kandev_routing_sdk.testing.scripted SCRIPT [--headless]``."""

from __future__ import annotations

import sys

from kandev_routing_sdk.testing.scripted.agent import main

sys.exit(main(sys.argv[1:]))

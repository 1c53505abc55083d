"""``python -m kandev_routing_sdk`` is ``kandev-routing``."""

from __future__ import annotations

import sys

from kandev_routing_sdk.cli import main

if __name__ == "__main__":
    sys.exit(main())

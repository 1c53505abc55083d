# noqa: INP001  # a script beside the documentation, not a package
"""Write the configuration file's JSON Schema from the code; ``tests/docs`` holds the file to it.

``python docs/_tools/write_config_schema.py`` writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from kandev_routing_sdk.profiles.schema import config_schema

TARGET: Final = Path(__file__).parents[1] / "reference" / "schema" / "configuration.json"


def content() -> str:
    """Return the file's text."""
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(content(), encoding="utf-8")

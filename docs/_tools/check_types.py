# noqa: INP001  # a script beside the documentation, not a package
"""Hold the Python that the pages show to what holds for the code: ``python docs/_tools/check_types.py`` runs mypy over all of it.

What is pasted into a program that is checked strictly then passes there.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mypy import api

ROOT: Final = Path(__file__).parents[2]
_PYTHON: Final = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n\n)?^```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def shown() -> Iterator[tuple[str, str]]:
    """Yield each piece with the name of the file that it is, or one that says where it stands."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text("utf-8")
        for found in _PYTHON.finditer(text):
            line = text.count("\n", 0, found.start("text")) + 1
            yield found["file"] or f"{page.stem.replace('-', '_')}_line_{line}.py", found["text"]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in shown():
            (folder / file).write_text(text, "utf-8")
        os.environ["MYPYPATH"] = name
        said, wrong, status = api.run(
            ["--config-file", str(ROOT / "pyproject.toml"), *map(str, sorted(folder.glob("*.py")))]
        )
    sys.stdout.write(f"{said}{wrong}".replace(f"{name}/", ""))
    return status


if __name__ == "__main__":
    sys.exit(main())

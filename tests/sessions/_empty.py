"""A database with the schema and nothing else."""

from __future__ import annotations

import sqlalchemy as sa

KEPT = "kr_version"
"""What says that the schema is there."""


def emptied(url: str) -> None:
    """Remove every row of ours from the database at ``url``."""
    engine = sa.create_engine(url)
    try:
        with engine.begin() as connection:
            names = [n for n in sa.inspect(connection).get_table_names() if n.startswith("kr_") and n != KEPT]
            if engine.dialect.name == "postgresql":
                connection.execute(sa.text(f"TRUNCATE {', '.join(names)} RESTART IDENTITY"))
                return
            for name in names:
                connection.execute(sa.text(f"DELETE FROM {name}"))
    finally:
        engine.dispose()

"""What Alembic runs for each upgrade: always on the connection, and in the transaction, that the store hands over."""

from __future__ import annotations

from alembic import context

from kandev_routing_sdk.store.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()

"""Alembic runs on the connection that `migrate` hands over; there is no command-line configuration of its own."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()

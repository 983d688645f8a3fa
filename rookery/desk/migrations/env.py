"""Run migrations on the connection that the store passes in."""

from alembic import context

from rookery.desk.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite changes a table only by copying it
    transactional_ddl=True,
)
context.run_migrations()

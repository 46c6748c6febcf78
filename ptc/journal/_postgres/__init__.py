"""The journal in PostgreSQL, for many machines. Needs asyncpg."""

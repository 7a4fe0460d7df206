#!/usr/bin/env bash
# Makes the role that servers run with, when the database is made. 'carillon migrate up' grants it what servers need.
set -euo pipefail

[ -n "${POSTGRES_APP_ROLE:-}" ] || exit 0
: "${POSTGRES_APP_PASSWORD:?set it in .env beside POSTGRES_APP_ROLE}"
psql -v ON_ERROR_STOP=1 -v role="$POSTGRES_APP_ROLE" -v password="$POSTGRES_APP_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE :"role" LOGIN NOINHERIT BYPASSRLS PASSWORD :'password';
SQL

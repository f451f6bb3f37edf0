#!/bin/bash
# Runs once, on an empty data directory: a role and a database for each, none of which may enter another's.
set -euo pipefail

database() {
    psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --set=name="$1" --set=password="$2" <<'SQL'
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name";
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

database airflow "$AIRFLOW_DB_PASSWORD"
database tidegate "$LEDGER_DB_PASSWORD"
database metastore "$METASTORE_DB_PASSWORD"

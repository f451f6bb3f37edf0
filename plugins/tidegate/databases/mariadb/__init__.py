"""MariaDB as the source of mirrors."""

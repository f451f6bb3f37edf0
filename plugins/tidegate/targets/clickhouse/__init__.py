"""ClickHouse as a further system: hours by REPLACE PARTITION from a staging of each try (D1 to D8)."""

"""What every rule may use: errors, instants, offsets, zones, Hive types, partition values, renames (R10)."""

"""What every rule may use: errors, instants, offsets, zones, types, partition values, connections, renames (R10)."""

"""What the maintenance DAG sets right by itself."""

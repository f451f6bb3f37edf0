"""Published windows, and batches of late and dirty tables, sent to further systems: rules D1 to D11."""

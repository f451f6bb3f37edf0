"""Published windows are sent to further systems."""

"""Messages to people and consumers: notices, announcements, pauses."""

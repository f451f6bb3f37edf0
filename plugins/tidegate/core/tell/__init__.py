"""What people and consumers are told: notices, announcements, pauses."""

"""Published generations: their grounds, their files, and which ready windows go out together."""

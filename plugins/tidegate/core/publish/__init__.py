"""Published generations: what they rest on, their files, and which ready windows go out together."""

"""Route one prompt to the first agent profile that can do it."""

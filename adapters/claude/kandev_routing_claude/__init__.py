"""Claude adapter for kandev-routing-sdk."""

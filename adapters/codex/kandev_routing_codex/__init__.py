"""Codex adapter for kandev-routing-sdk."""

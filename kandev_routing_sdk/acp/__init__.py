"""Agents that speak the Agent Client Protocol over standard input and output."""

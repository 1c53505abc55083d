"""A coding agent that does what a script says: a real process that speaks ACP, or JSON lines, and needs only the standard library.

``python -m kandev_routing_sdk.testing.scripted SCRIPT [--headless]``. This package imports nothing by itself, so that the agent
starts fast; its parts are re-exported by :mod:`kandev_routing_sdk.testing`.
"""

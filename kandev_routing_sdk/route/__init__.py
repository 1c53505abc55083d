"""The route: states, THE TABLE and ``step()``, ``select()`` with its explanation, the continuation package."""

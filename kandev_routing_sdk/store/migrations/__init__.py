"""Schema versions (R-DUR-1): forward only, append-only. ``versions/NNNN_what.py``; add the number to ``migrate.VERSIONS``."""

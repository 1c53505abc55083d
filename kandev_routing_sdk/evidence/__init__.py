"""Evidence of one attempt: envelope with bounds, effect ledger, sanitiser, timing hints."""

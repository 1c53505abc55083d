"""What a provider failure was: codes and classes, rules as data beside their fixtures, one deterministic ``classify()``."""

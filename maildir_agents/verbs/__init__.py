"""What may be asked for: one module a verb.  Each takes a spool and named arguments, and answers plain data."""

"""The lowest floor: how a byte gets to stay.  It knows files, and nothing of mail."""

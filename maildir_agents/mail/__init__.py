"""What the files mean: names, states, commits.  It knows the protocol, and nothing of who asks."""

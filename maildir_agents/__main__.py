"""`python -m maildir_agents` is the command `agent-mail`."""

from maildir_agents.faces.cli import main

main()

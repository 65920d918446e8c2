"""The face that coding agents' harnesses meet: an event on standard input, an answer in the harness's own dialect.

A hook runs before every turn of somebody's session, so it is quick, silent when nothing is owed, and whatever goes
wrong is no reason to hold that session up.  It says facts and this package's own commands, never what a message says.
"""

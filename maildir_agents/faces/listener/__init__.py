"""The face that mail itself uses: a message arrives, and a worker is started for it.

Which mail that is, and what its end means, is the verbs' (`dispatch`, `outcome`); here are processes, signals, output
and time.  One process serves any number of agents, each with one worker at a time, on one doorbell.
"""

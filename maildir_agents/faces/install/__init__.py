"""The face that writes into other programs' settings: hooks, an MCP entry, a block of instructions, and out again.

It edits text, not data: what it puts in is one piece of text at one place, so that taking it out leaves the file as it
was, byte for byte.  Before anything is written that is tried out, and a file that can't be read is left alone.
"""

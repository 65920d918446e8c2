"""The MCP face: a mailbox for one agent as tools and resources, over the official SDK.

The only package that imports `mcp`; without the extra it says so.  Identity comes from outside the conversation with
the model (AGENT_ID), never from an argument of a tool.
"""

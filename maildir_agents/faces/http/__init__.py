"""HTTP: the API, the stream of events, MCP over HTTP, and the inbox page.  The doorway of the web stack.

A request passes the guard (who asks, from where, how much), is made a call to one verb on a thread, and its answer is
told under the network's names.  What mail means is decided below.
"""

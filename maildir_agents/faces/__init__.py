"""Where customers stand: parse, one call, render.  A face has no opinions about mail and knows no other face."""

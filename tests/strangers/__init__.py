"""Videos played in Firefox and WebKit."""
